// What can go wrong, in words for the person in front of the page: what happened, and what to do.

export class Problem extends Error {
  constructor(kind, detail = "") {
    super(detail || kind);
    this.kind = kind;
    this.detail = detail;
  }
}

const TEXTS = {
  insecure: ["The microphone needs a secure page", "Browsers allow it only on https:// pages and on localhost. Serve with --tls-certificate and --tls-key, or open the page on the machine that serves it."],
  unsupported: ["This browser cannot record", "It has no AudioWorklet. Current versions of Chrome, Edge, Firefox and Safari have it. Files can be transcribed in this browser, too."],
  denied: ["The microphone is blocked", "Allow it for this page with the icon next to the address. Then try again."],
  "no-microphone": ["No microphone found", "Plug one in, or choose another one in the settings. Files and the sound of a tab need no microphone."],
  unplugged: ["The microphone was disconnected", "It was unplugged, or this page is no longer allowed to use it. The text so far is kept."],
  "microphone-busy": ["The microphone is busy", "Another program is using it. Close that program, then try again."],
  microphone: ["The microphone does not start", ""],
  "few-channels": ["The microphone has too few channels", ""],
  "share-denied": ["Nothing was shared", "Choose a tab or a screen in the browser's dialog to caption its sound."],
  "share-silent": ["No sound was shared", "Choose a tab and switch on “Also share tab audio” in the browser's dialog."],
  "share-failed": ["The sound cannot be shared", ""],
  key: ["An API key is needed", "Ask the operator of this server for one."],
  overloaded: ["The server is full", "All its sessions are in use. Try again when someone else has finished."],
  too_fast: ["Too many requests", "The server accepts no more from this address for now. Wait a minute, then try again."],
  origin: ["The server does not accept this page", "It was opened under a name that the server does not know. Open it under the server's address, or start the server with --origin."],
  unreachable: ["The server does not answer", "Check that it is running, and that the network works."],
  bad_setting: ["These settings do not go together", ""],
  languages: ["These languages cannot be detected", ""],
  keyterms: ["These key terms cannot be used", ""],
  watch: ["Viewers cannot read the captions", ""],
  unshared: ["Viewers can no longer read the captions", "The server failed to show these captions, and closed their address. Press Share, then “Make an address”, to open it again."],
  internal: ["The server failed", "The text so far is kept. Try again, or choose another model."],
  file: ["This file contains no sound that can be read", "Expected a recording such as WAV, MP3, M4A, FLAC, Ogg or a video."],
  refused: ["The server cannot do this", ""],
  "file-unreadable": ["This file cannot be read", "It is a folder, was moved or changed, or you may not read it. Choose the recordings themselves."],
  "file-large": ["This file is too large or too long", ""],
  "weak-language": ["The language is uncertain", ""],
  "only-english": ["This does not look like English", ""],
  "not-kept": ["This transcript is too long to survive a reload", "New words are not kept. Download the transcript before you reload or close the page."],
};

const RETRY = new Set(["denied", "no-microphone", "unplugged", "microphone-busy", "microphone", "overloaded", "unreachable", "internal", "too_fast"]);

/** A problem -> { title, text, action }; `action` is what a button next to it should do: "retry", "key" or null. */
export function describe(problem) {
  const [title, text] = TEXTS[problem.kind] ?? ["Something went wrong", ""];
  const action = problem.kind === "key" ? "key" : RETRY.has(problem.kind) ? "retry" : null;
  return { title, text: text || problem.detail || "", action };
}
