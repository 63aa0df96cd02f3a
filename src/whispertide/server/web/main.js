// The page: joins sound, session, transcript and screen. Each of them is a module that does not know the others.

import { Captions, clock } from "./captions.js";
import { save, render } from "./downloads.js";
import { decode, upload } from "./files.js";
import { Gauges } from "./gauges.js";
import { askForMicrophone, askForSharedSound, canShareSound, Capture } from "./microphone.js";
import { describe, Problem } from "./problems.js";
import { Server } from "./server.js";
import { Settings } from "./settings.js";
import { LiveSession, RATE } from "./socket.js";
import { Transcript } from "./transcript.js";

const $ = (id) => document.getElementById(id);

const settings = new Settings($("settings-form"));
const captions = new Captions({ scroller: $("scroller"), list: $("transcript"), log: $("log"), big: $("big-text"), jump: $("jump") });
const gauges = new Gauges({ canvas: $("level"), time: $("time"), delay: $("delay"), button: $("record") });
let transcript = new Transcript();
let about = {}; // model, recipe, language and source of the transcript, for downloads
let running = null; // the recording that goes on: { session, capture, source, total, stop }
let again = null; // what "Try again" does

// --- server ----------------------------------------------------------------------------------------------------------

const server = new Server(() => settings.key);

async function greet() {
  showState("connecting", "Connecting");
  try {
    settings.offer(await server.hello());
    showProblem(null);
    showReady();
    return true;
  } catch (problem) {
    showState("off", "Not connected");
    showProblem(problem, greet);
    return false;
  }
}

// --- recording -------------------------------------------------------------------------------------------------------

async function record(source, ask) {
  if (running || (!settings.hello && !(await greet()))) return;
  showProblem(null);
  const recording = (running = begin(source));
  try {
    const stream = await ask();
    settings.offerMicrophones();
    recording.capture = new Capture(stream, (samples) => heard(recording, samples), () => stop(recording));
    open(recording);
    await recording.capture.start();
    keepAwake(recording);
  } catch (problem) {
    await end(recording, problem, () => record(source, ask));
  }
}

async function readFile(file) {
  if (running || (!settings.hello && !(await greet()))) return;
  showProblem(null);
  const recording = (running = begin(file.name));
  recording.isFile = true;
  showState("live", "Reading the file");
  const samples = await decode(file);
  if (running !== recording) return;
  if (!samples) return letServerRead(recording, file);
  open(recording);
  recording.total = samples.length;
  recording.session.push(samples);
  recording.session.finish();
}

async function letServerRead(recording, file) {
  const aborting = new AbortController();
  recording.abort = () => aborting.abort();
  showState("live", "The server reads the file");
  try {
    const events = await upload(file, server, { ...settings.start, signal: aborting.signal });
    about = { ...settings.start, source: file.name };
    events.forEach(take);
    await end(recording);
  } catch (problem) {
    await end(recording, problem.name === "AbortError" ? null : problem, () => readFile(file));
  }
}

function begin(source) {
  transcript.begin();
  captions.begin();
  gauges.reset();
  $("time").textContent = "0:00";
  const button = $("record");
  button.classList.add("running");
  button.setAttribute("aria-label", "Stop");
  button.querySelector("use").setAttribute("href", "#i-stop");
  $("tab").disabled = $("file").disabled = true;
  showState("connecting", "Starting");
  return { source, total: 0, offset: transcript.duration };
}

function open(recording) {
  const session = new LiveSession(server, settings.start);
  recording.session = session;
  session.addEventListener("state", ({ detail }) => changed(recording, detail));
  session.addEventListener("event", ({ detail }) => take(detail, recording));
  session.addEventListener("forget", () => captions.endTurn());
}

function heard(recording, samples) {
  recording.total += samples.length;
  recording.session.push(samples);
  gauges.heard(samples, recording.total);
  if (recording.session.state === "away") showAway(recording);
}

async function stop(recording = running) {
  if (!recording) return;
  if (recording.stopping || recording.isFile) return leave(recording);
  recording.stopping = true;
  showState("connecting", "Last words");
  await recording.capture?.stop();
  if (recording.session) recording.session.finish();
  else await end(recording);
}

/** Without waiting for the rest. */
async function leave(recording) {
  recording.abort?.();
  recording.session?.abandon();
  await end(recording);
}

async function end(recording, problem = null, retry = null) {
  if (running !== recording) return;
  running = null;
  recording.lock?.release().catch(() => {});
  transcript.endTurn();
  captions.endTurn();
  const button = $("record");
  button.classList.remove("running");
  button.setAttribute("aria-label", "Start");
  button.querySelector("use").setAttribute("href", "#i-mic");
  $("tab").disabled = $("file").disabled = false;
  gauges.reset();
  showTools();
  if (problem?.kind === "unreachable" || problem?.kind === "key") showState("off", "Not connected");
  else showReady();
  if (problem) showProblem(problem, retry);
  if (problem && recording.session && !recording.session.isOver) recording.session.abandon();
  await recording.capture?.stop();
}

async function keepAwake(recording) {
  try {
    recording.lock = await navigator.wakeLock?.request("screen");
    if (running !== recording) recording.lock?.release();
  } catch {
    // the battery may be low: then the screen goes dark
  }
}

// --- what the session says -------------------------------------------------------------------------------------------

function changed(recording, { state, problem }) {
  if (state === "live" || state === "finishing") {
    const { model, recipe, language } = recording.session.details;
    about = { model, recipe, language, source: recording.source };
    if (recording.isFile) showState("live", "Reading the file");
    else showState(state === "live" ? "live" : "connecting", state === "live" ? "Listening" : "Last words");
  } else if (state === "away") showAway(recording);
  else if (state === "ended") {
    transcript.complete = true;
    end(recording);
  } else if (state === "failed") {
    const file = recording.isFile;
    end(recording, problem, file ? null : () => record(recording.source, () => askFor(recording.source)));
  }
}

function take(event, recording = null) {
  const words = transcript.take(event);
  if (words.length) {
    captions.add(words);
    const live = recording && !recording.isFile;
    if (live) gauges.confirmed(words.map(({ end }) => end - recording.offset), recording.total);
    showTools();
  }
  if (event.type === "hypothesis") captions.showGuess(transcript.guess);
  if (event.type === "turn_end") captions.endTurn();
  if (event.type === "lag" && event.behind > 2) showState("live", `Listening, ${Math.round(event.behind)} s behind`);
  else if (event.type === "lag") showState("live", "Listening");
  if (event.type === "error" && !event.fatal) showProblem(new Problem("server", event.message));
  $("empty").hidden ||= words.length > 0 || transcript.guess.length > 0;
  if (recording?.isFile) showProgress(recording, event);
}

function showProgress(recording, event) {
  const share = Math.min(100, Math.round((100 * event.at * RATE) / recording.total));
  showState("live", `Reading the file, ${share} %`);
  $("time").textContent = clock(Math.round(event.at * RATE));
}

// --- screen ----------------------------------------------------------------------------------------------------------

function showState(state, text) {
  if ($("status").dataset.state !== state) $("status").dataset.state = state;
  if ($("status-text").textContent !== text) $("status-text").textContent = text;
}

function showReady() {
  showState("ready", `Ready · ${settings.start.model ?? ""}`);
}

function showAway({ session, isFile }) {
  const seconds = Math.floor(session.unsent / RATE / 5) * 5; // said to screen readers, so not every second
  showState("away", isFile || seconds < 5 ? "Reconnecting" : `Reconnecting · ${seconds} s kept`);
}

function showProblem(problem, retry = null) {
  $("problem").hidden = !problem;
  if (!problem) return;
  if (!(problem instanceof Problem)) console.error(problem);
  const { title, text, action } = describe(problem);
  $("problem-title").textContent = title;
  $("problem-text").textContent = text;
  $("problem-action").textContent = action === "key" ? "Enter the key" : "Try again";
  $("problem-action").hidden = !action || (action === "retry" && !retry);
  again = action === "key" ? () => $("key").showModal() : retry;
}

function showTools() {
  const nothing = !transcript.words.length;
  for (const id of ["copy", "save", "clear"]) $(id).disabled = nothing;
}

async function copy() {
  if (!transcript.words.length) return;
  const text = render("txt", transcript);
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    copyBySelection(text);
  }
  flash("Copied");
}

/** For pages without a secure origin, which have no clipboard. */
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
}

function flash(text) {
  const before = [$("status").dataset.state, $("status-text").textContent];
  showState(before[0], text);
  setTimeout(() => $("status-text").textContent === text && showState(...before), 1500);
}

function clear() {
  if (!confirm("Throw this transcript away and begin a new one?")) return;
  if (running) leave(running);
  transcript = new Transcript();
  captions.clear();
  $("time").textContent = "0:00";
  $("empty").hidden = false;
  showTools();
}

// --- controls --------------------------------------------------------------------------------------------------------

const askFor = (source) => (source === "tab" ? askForSharedSound() : askForMicrophone(settings.microphone));
const startOrStop = () => (running ? stop() : record("microphone", () => askFor("microphone")));

function openFormats(open) {
  $("formats").hidden = !open;
  $("save").setAttribute("aria-expanded", String(open));
  if (open) $("formats").firstElementChild.focus();
}

function moveInMenu(event) {
  const items = [...$("formats").children];
  const at = items.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 }[event.key];
  if (to !== undefined) {
    items.at(to % items.length).focus();
    event.preventDefault();
  } else if (event.key === "Escape" || event.key === "Tab") {
    openFormats(false);
    $("save").focus();
  }
}

const SHORTCUTS = {
  r: startOrStop,
  b: () => ($("big").open ? $("big").close() : $("big").showModal()),
  c: copy,
  "+": () => settings.resize(1),
  "=": () => settings.resize(1),
  "-": () => settings.resize(-1),
};

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !settings.shortcuts) return;
  if (event.target.closest("input, select, textarea") || $("settings").open || $("key").open) return;
  const action = SHORTCUTS[event.key.toLowerCase()];
  if (action && !event.repeat) {
    event.preventDefault();
    action();
  }
}

function on(id, act) {
  $(id).addEventListener("click", act);
}

on("record", startOrStop);
on("tab", () => record("tab", () => askFor("tab")));
on("file", () => $("chooser").click());
on("copy", copy);
on("clear", clear);
on("theme", () => {
  settings.nextTheme();
  gauges.draw();
  flash(`Appearance: ${settings.theme}`);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => gauges.draw());
on("settings-open", () => {
  settings.offerMicrophones();
  $("settings").showModal();
});
on("big-open", () => $("big").showModal());
on("big-close", () => $("big").close());
on("problem-action", () => again?.());
on("problem-close", () => showProblem(null));
on("key-cancel", () => $("key").close());
on("save", () => openFormats($("formats").hidden));
$("formats").addEventListener("keydown", moveInMenu);
$("formats").addEventListener("click", ({ target }) => {
  const format = target.closest("[data-format]")?.dataset.format;
  if (format) save(format, transcript, about);
  openFormats(false);
  $("save").focus();
});
addEventListener("click", ({ target }) => target.closest(".menu") || openFormats(false));
addEventListener("keydown", pressed);

$("key-form").addEventListener("submit", () => {
  settings.key = $("key-form").elements.key.value.trim();
  $("key-form").reset();
  greet();
});
$("chooser").addEventListener("change", () => {
  const [file] = $("chooser").files;
  $("chooser").value = "";
  if (file) readFile(file);
});

// --- dropping a file -------------------------------------------------------------------------------------------------

const hasFile = (event) => event.dataTransfer?.types.includes("Files");
addEventListener("dragover", (event) => {
  if (!hasFile(event)) return;
  event.preventDefault();
  $("drop").hidden = Boolean(running);
});
addEventListener("dragleave", (event) => event.relatedTarget || ($("drop").hidden = true));
addEventListener("drop", (event) => {
  if (!hasFile(event)) return;
  event.preventDefault();
  $("drop").hidden = true;
  if (event.dataTransfer.files.length) readFile(event.dataTransfer.files[0]);
});

addEventListener("beforeunload", (event) => running && event.preventDefault());
settings.form.addEventListener("change", () => running || !settings.hello || showReady());

$("tab").hidden = $("tab-hint").hidden = !canShareSound();
gauges.reset();
greet();
