// What can go wrong, in words for the person in front of the page: what happened, and what to do.

export class Problem extends Error {
  constructor(kind, detail = "") {
    super(detail || kind);
    this.kind = kind;
    this.detail = detail;
  }
}

const TEXTS = {
  insecure: ["The microphone needs a secure page", "Browsers lend it only to https:// pages and to localhost. Serve with --tls-certificate and --tls-key, or open the page on the machine that serves it."],
  unsupported: ["This browser cannot record", "It has no AudioWorklet. A current Chrome, Edge, Firefox or Safari has; files can be transcribed here all the same."],
  denied: ["The microphone is blocked", "Allow it for this page: the icon next to the address has the switch. Then try again."],
  "no-microphone": ["No microphone found", "Plug one in, or choose another one in the settings. A file or the sound of a tab works without."],
  unplugged: ["The microphone is gone", "It was unplugged, or this page may not use it any more. What was said until then stays."],
  "microphone-busy": ["The microphone is busy", "Another program holds it. Close that program, then try again."],
  microphone: ["The microphone does not start", ""],
  "few-channels": ["The microphone has too few channels", ""],
  "share-denied": ["Nothing was shared", "Choose a tab or a screen in the browser's dialog to caption its sound."],
  "share-silent": ["No sound was shared", "Choose a tab and switch on “Also share tab audio” in the browser's dialog."],
  "share-failed": ["The sound cannot be shared", ""],
  key: ["An API key is needed", "Whoever runs this server has given out keys."],
  overloaded: ["The server is full", "All places are taken at the moment. Your turn comes when somebody else has finished."],
  too_fast: ["Too many requests", "The server asks this address to wait for a minute."],
  origin: ["The server does not accept this page", "It was opened under a name that the server does not know. Open it by its address, or start the server with --origin."],
  unreachable: ["The server does not answer", "Is it running, and is the network there?"],
  bad_setting: ["These settings do not go together", ""],
  languages: ["These languages cannot be detected", ""],
  keyterms: ["These key terms cannot be used", ""],
  watch: ["Nobody can read along", ""],
  unshared: ["Nobody can read along any more", "The server failed to show these captions to others, and closed their address. Press Share, then “Make an address”, to open it again."],
  internal: ["The server failed", "What you see is safe. Try again, or another model."],
  file: ["This file has no sound that could be read", "Expected a recording such as WAV, MP3, M4A, FLAC, Ogg or a video."],
  refused: ["The server cannot do this", ""],
  "file-large": ["This file is too large or too long", ""],
  "weak-language": ["The language is a weak guess", ""],
  "only-english": ["This does not look like English", ""],
  "not-kept": ["This transcript is too long to be kept over a reload", "What comes now is not kept. Download it before you reload or close the page."],
};

const RETRY = new Set(["denied", "no-microphone", "unplugged", "microphone-busy", "microphone", "overloaded", "unreachable", "internal", "too_fast"]);

/** A problem -> { title, text, action }; `action` is what a button next to it should do: "retry", "key" or null. */
export function describe(problem) {
  const [title, text] = TEXTS[problem.kind] ?? ["Something went wrong", ""];
  const action = problem.kind === "key" ? "key" : RETRY.has(problem.kind) ? "retry" : null;
  return { title, text: text || problem.detail || "", action };
}
