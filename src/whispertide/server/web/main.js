// The page: joins sound, session, transcript and screen. Each of them is a module that does not know the others.

import { Batch, isOfFile } from "./batch.js";
import { Captions } from "./captions.js";
import { ChannelSessions } from "./channels.js";
import { copyText, save, render } from "./downloads.js";
import { acceptChoices, acceptDrops, decode, upload } from "./files.js";
import { Hints } from "./hints.js";
import { Menu } from "./menu.js";
import { askForMicrophone, askForSharedSound, canShareSound, Capture, keepAwake } from "./microphone.js";
import { lengthOf, Player } from "./player.js";
import { Problem } from "./problems.js";
import { $, big, gauges, meet, notice, on, settings, showClock, showReady, showRunning, showTools, status } from "./screen.js";
import { Server } from "./server.js";
import { Share } from "./share.js";
import { listenForShortcuts } from "./shortcuts.js";
import { LiveSession } from "./socket.js";
import { mono, RATE } from "./sound.js";
import { TabStorage } from "./storage.js";
import { showTips } from "./tips.js";
import { Transcript } from "./transcript.js";

const captions = new Captions({
  scroller: $("scroller"),
  list: $("transcript"),
  log: $("log"),
  big: $("big-text"),
  bigSecond: $("big-second"),
  jump: $("jump"),
  nameOf: (speaker) => transcript.nameOf(speaker),
  rename,
  play: (sample) => running?.capture || player.playFrom(sample), // a microphone would hear it
});
const player = new Player({
  box: $("player"),
  audio: document.querySelector("#player audio"),
  name: $("player-name"),
  onPosition: (sample) => captions.mark(sample),
});
let transcript = new Transcript();
let about = {}; // model, recipe, language and source of the transcript, for downloads
let running = null; // the recording that goes on: { session, capture, source, total, offset }
const storage = new TabStorage(
  () => (transcript.words.length ? { transcript, about } : null),
  () => notice.show(new Problem("not-kept")),
);

// --- server ----------------------------------------------------------------------------------------------------------

const server = new Server(() => settings.key);

const share = new Share($("share"), server, {
  onChange: (isOpen) => $("share-show").setAttribute("aria-pressed", String(isOpen)),
  onProblem: (problem) => notice.show(problem),
});

async function greet() {
  if (!running) status.show("connecting", "Connecting");
  try {
    meet(await server.hello());
    notice.show(null);
    if (!running) showReady();
    return true;
  } catch (problem) {
    status.show("off", "Not connected");
    notice.show(problem, greet);
    return false;
  }
}

// --- recording -------------------------------------------------------------------------------------------------------

/** Whether a recording can begin: none is running, the server is there, and the settings can be sent. */
async function mayBegin() {
  if (running || (!settings.hello && !(await greet())) || running) return false; // another may have begun meanwhile
  const wrong = settings.fault;
  notice.show(wrong ? new Problem(wrong.name, wrong.fault) : null);
  return !wrong;
}

async function record(source) {
  if (!(await mayBegin())) return;
  const recording = (running = prepare(source));
  const apart = source === "tab" ? 1 : settings.channels;
  try {
    const stream = await (source === "tab" ? askForSharedSound() : askForMicrophone(settings.microphone, apart));
    if (running !== recording) return stream.getTracks().forEach((track) => track.stop()); // stopped before the answer
    settings.offerMicrophones();
    recording.capture = new Capture(stream, { apart, onSamples: (channels) => heard(recording, channels), onEnd: () => gone(recording) });
    open(recording, apart);
    await recording.capture.start();
    await stayAwake(recording);
  } catch (problem) {
    await end(recording, problem, () => record(source));
  }
}

async function stayAwake(recording) {
  recording.lock = await keepAwake();
  if (running !== recording) recording.lock?.release();
}

/** While nobody saw the page, the browser let the screen sleep, and perhaps the sound. */
function seenAgain() {
  if (document.hidden || !running?.capture) return;
  running.capture.wake();
  if ("lock" in running) stayAwake(running); // else it is asked for when the sound has started
}

/** The device gives no more. Whoever ended the sharing of a tab knows; of a microphone it has to be told. */
function gone(recording) {
  if (recording.stopping) return;
  stop(recording);
  if (recording.source === "microphone") notice.show(new Problem("unplugged"), () => record("microphone"));
}

/** One after another. */
async function readFiles(files) {
  if (!(await mayBegin())) return;
  readNext(new Batch(files));
}

/** The first of the files that are left. */
async function readNext(batch) {
  const retried = [...batch.files];
  const file = batch.take();
  const recording = (running = prepare(file.name));
  Object.assign(recording, { isFile: true, batch, retry: () => readFiles(retried) });
  status.reading(recording);
  const seconds = await lengthOf(file);
  if (seconds !== null) recording.file = file;
  const samples = await decode(file, seconds);
  if (running !== recording) return;
  if (!samples) return letServerRead(recording, file);
  open(recording);
  recording.total = samples.length;
  recording.session.push(samples);
  recording.session.finish();
}

async function letServerRead(recording, file) {
  recording.aborting = new AbortController();
  status.reading(recording, "The server is transcribing");
  try {
    const events = await upload(file, server, settings.model.languages, { ...recording.chosen, signal: recording.aborting.signal });
    begin(recording, { ...recording.chosen, recipe: "offline" });
    events.forEach((event) => take(event));
    captions.announce("The recording is transcribed");
    transcript.finish(transcript.duration);
    await end(recording);
  } catch (problem) {
    await end(recording, problem.name === "AbortError" ? null : problem, recording.retry);
  }
}

/** Nothing of the transcript changes before the sound is known to be good and the server takes it: `begin`. */
function prepare(source) {
  player.pause();
  gauges.reset();
  showRunning(true);
  status.show("connecting", "Starting");
  return { source, chosen: settings.live, task: settings.start.task, total: 0, offset: transcript.duration, begun: false };
}

function begin(recording, { model, recipe, language }) {
  language = language === "auto" ? null : language;
  about = { model, recipe, language, source: recording.source };
  if (recording.begun) return;
  recording.begun = true;
  recording.hints = new Hints(settings.hello.models.find(({ name }) => name === model) ?? settings.model);
  const name = recording.isFile ? recording.source : "";
  transcript.begin(name);
  captions.begin({ at: recording.offset, playable: Boolean(recording.file), name });
  captions.setLanguage(recording.task === "translate" ? "en" : language);
  if (recording.file) player.add(recording.file, recording.offset);
}

function open(recording, apart = 1) {
  const session = apart > 1 ? new ChannelSessions(server, () => settings.apart, apart) : new LiveSession(server, () => settings.live);
  recording.session = session;
  session.addEventListener("hello", ({ detail }) => meet(detail));
  session.addEventListener("state", ({ detail }) => changed(recording, detail));
  session.addEventListener("event", ({ detail }) => take(detail, recording));
  session.addEventListener("forget", ({ detail }) => captions.endTurn(detail?.channel));
  session.addEventListener("unshared", () => share.lost());
}

/** `channels` are those that are kept apart, or one. */
function heard(recording, channels) {
  if (running !== recording) return;
  recording.total += channels[0].length;
  recording.session.push(channels.length > 1 ? channels : channels[0]);
  gauges.heard(mono(channels), recording.offset + recording.total);
}

async function stop(recording = running) {
  if (!recording) return;
  if (recording.stopping || recording.isFile) return leave(recording);
  recording.stopping = true;
  status.show("connecting", "Finishing");
  await recording.capture?.stop();
  if (recording.session) recording.session.finish();
  else await end(recording);
}

/** Without waiting for the rest. */
async function leave(recording) {
  recording.left = true;
  recording.aborting?.abort();
  recording.session?.abandon();
  await end(recording);
}

async function end(recording, problem = null, retry = null) {
  if (running !== recording) return;
  running = null;
  if (recording.isFile && recording.begun) remark(recording);
  recording.lock?.release().catch(() => {});
  transcript.endTurn();
  captions.endTurn();
  showRunning(false);
  gauges.reset();
  showClock(transcript.duration);
  storage.changed();
  showTools(transcript.words);
  if (problem?.kind === "unreachable" || problem?.kind === "key") status.show("off", "Not connected");
  else showReady();
  if (problem) notice.show(problem, retry, recording.batch?.unread(recording.source, problem));
  if (problem && recording.session && !recording.session.isOver) recording.session.abandon();
  await recording.capture?.stop();
  // What is wrong with one file stays to be seen, and is nothing against the next.
  const goesOn = !recording.left && (!problem || isOfFile(problem));
  if (goesOn && recording.batch?.files.length) readNext(recording.batch);
}

/** How a file was transcribed, and whether it has any words. */
function remark(recording) {
  const how = recording.session ? `transcribed live, with ${about.recipe}` : "transcribed as a whole, by the server";
  const silent = !recording.left && !transcript.words.some(({ start }) => start >= recording.offset);
  captions.remark(silent ? `${how} · no words` : how);
  if (silent) captions.announce(`No words in ${recording.source}`);
  $("empty").hidden = true;
}

// --- what the session says -------------------------------------------------------------------------------------------

function changed(recording, { state, problem }) {
  if (state === "live" || state === "finishing") {
    begin(recording, recording.session.details);
    transcript.follow(recording.session.details.session);
    share.attach(recording.session.details.session, transcript.ownNames);
    if (recording.isFile) status.reading(recording);
    else status.show(state === "live" ? "live" : "connecting", state === "live" ? "Listening" : "Finishing");
  } else if (state === "away") status.away(recording);
  else if (state === "ended") {
    if (!recording.left) transcript.finish(recording.offset + recording.total);
    end(recording);
  } else if (state === "failed") {
    end(recording, problem, retryOf(recording));
  }
}

/** What "Try again" does when a session has failed. A file that is in the transcript in part is not read again. */
function retryOf({ source, begun, batch, retry }) {
  if (!batch) return () => record(source);
  if (!begun) return retry;
  return batch.files.length ? () => readFiles(batch.files) : null;
}

/** The user typed the name of a voice. */
function rename(speaker, name) {
  transcript.rename(speaker, name);
  share.name(transcript.ownNames);
  storage.changed();
}

/** Without a recording: of a file that the server has read. All of its words at once are not said to screen readers. */
function take(event, recording = null) {
  const words = transcript.take(event);
  const live = recording && !recording.isFile;
  if (words.length) {
    if (recording) captions.add(words, event.channel);
    else captions.show(words);
    storage.changed();
    if (live) gauges.confirmed(words.map(({ end }) => end - recording.offset), recording.total);
    showTools(transcript.words);
  }
  if (event.type === "translation" || event.type === "correction") {
    captions.translate(transcript.others.at(-1));
    storage.changed();
  }
  if (event.type === "hypothesis") captions.showGuess(transcript.guessOf(event.channel), event.channel);
  if (event.type === "turn_end" && !event.eager) captions.endTurn(event.channel);
  if (event.type === "language" && recording?.task !== "translate") captions.setLanguage(event.language);
  if (event.type === "lag" && live && !recording.stopping) {
    status.show("live", event.behind > 2 ? `Listening, ${Math.round(event.behind)} s behind` : "Listening");
  }
  const hint = recording?.hints?.take(event);
  if (hint) notice.show(hint);
  if (event.type === "error" && !event.fatal) notice.show(new Problem("server", event.message));
  $("empty").hidden ||= words.length > 0 || transcript.hasGuess;
  if (recording?.isFile) showProgress(recording, event);
}

/** In few steps: each is said to screen readers. The clock shows more. */
function showProgress(recording, event) {
  const share = Math.min(1, (event.at * RATE) / recording.total);
  status.reading(recording, "Transcribing", `, ${25 * Math.floor(4 * share)} %`);
  showClock(recording.offset + Math.round(event.at * RATE));
}

// --- the transcript -------------------------------------------------------------------------------------------------------

async function copy() {
  if (!transcript.words.length) return;
  status.flash((await copyText(await render("txt", transcript))) ? "Copied" : "The browser does not allow copying");
}

function clear() {
  if (!confirm("Delete this transcript and begin a new one?")) return;
  if (running) leave(running);
  reset();
}

function reset() {
  transcript = new Transcript();
  about = {};
  captions.clear();
  player.clear();
  storage.changed();
  showClock(0);
  $("empty").hidden = false;
  showTools(transcript.words);
}

// --- controls --------------------------------------------------------------------------------------------------------

const startOrStop = () => (running ? stop() : record("microphone"));

const shortcuts = {
  r: startOrStop,
  b: () => big.toggle(),
  c: copy,
  "+": () => settings.resize(1),
  "=": () => settings.resize(1),
  "-": () => settings.resize(-1),
};

on("record", startOrStop);
on("tab", () => record("tab"));
on("file", () => $("chooser").click());
on("copy", copy);
on("clear", clear);
on("settings-open", () => {
  settings.offerMicrophones();
  server.hello().then(meet).then(() => running || showReady(), () => {}); // it may have been started anew
  $("settings").showModal();
});
on("share-show", () => share.show());
on("big-record", startOrStop);
on("key-cancel", () => $("key").close());
new Menu($("save"), $("formats"), ({ dataset }) => save(dataset.format, transcript, about));
listenForShortcuts(shortcuts, () => settings.shortcuts);
document.addEventListener("visibilitychange", seenAgain);

$("key-form").addEventListener("submit", () => {
  settings.key = $("key-form").elements.key.value.trim();
  $("key-form").reset();
  greet();
});
acceptChoices($("chooser"), readFiles);
acceptDrops($("drop"), () => !running, readFiles);
addEventListener("beforeunload", (event) => running && event.preventDefault());
settings.form.addEventListener("change", () => running || !settings.hello || showReady());
showTips($("tip"));

// --- the beginning ---------------------------------------------------------------------------------------------------

/** What a reload kept. Its sound is not there any more. */
function restore({ transcript: kept, about: of }) {
  transcript = Transcript.from(kept);
  about = of;
  captions.setLanguage(transcript.language ?? about.language);
  captions.showAll(transcript);
  showClock(transcript.duration);
  showTools(transcript.words);
  $("empty").hidden = true;
}

try {
  const kept = storage.read();
  if (kept) restore(kept);
} catch (error) {
  console.error(error); // another version of the page kept it
  reset();
}
$("tab").hidden = $("tab-hint").hidden = !canShareSound();
gauges.reset();
greet();
