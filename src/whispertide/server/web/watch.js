// The page to watch: a session's captions alone, for a stream, a hall or a phone. Joins what is read with how it looks.

import { element, nameAll, speakerName } from "./captions.js";
import { Looks } from "./looks.js";
import { keepAwake } from "./microphone.js";
import { Reader } from "./reader.js";

const PARAGRAPHS = 8; // kept where some lines are seen
const NEAR_END = 120; // pixels from the end within which the view follows the words
const STORE = "whispertide.watch.size";
const STATES = {
  connecting: "Connecting",
  away: "Reconnecting",
  absent: "No captions here yet",
  over: "The speaker has ended this address",
};

const $ = (id) => document.getElementById(id);
const root = document.documentElement;
const looks = new Looks(location.search);
const guess = element("span", "guess");
guess.setAttribute("aria-hidden", "true"); // it changes all the time
const second = Object.assign(element("p", "second"), { dir: "auto" }); // the translation, under all
let line = null; // the paragraph that is being written
let speaker = null; // of the paragraph before it, or of its own words
let following = true;
let hiding = null;

// --- the text --------------------------------------------------------------------------------------------------------

function show({ text, guess: guessed, follows, isNewRun, language, speaking, second: translated = "", second_speaker: voice, speakers = [], names = {} }) {
  root.lang = language ?? "";
  if (isNewRun) keepAsItIs(); // the server began anew
  else if (!follows) clear();
  if (text || (guessed && guessed !== guess.textContent) || translated !== (second.lastChild?.data ?? "")) stay();
  const [first, ...others] = text.split("\n");
  append(first, speakers[0]);
  others.forEach((part, at) => {
    endParagraph();
    append(part, speakers[at + 1]);
  });
  if (looks.showsGuess) showGuess(guessed);
  trim();
  showSecond(translated, voice);
  nameAll($("text"), (number) => names[number]);
  showState(speaking ? "" : $("text").hasChildNodes() ? "The speaker is pausing" : "The speaker has not started yet");
  if (following) toEnd();
}

function append(text, voice = null) {
  if (!text) return;
  beginParagraph();
  if (voice !== speaker && voice !== null) line.before(speakerName(voice, ""));
  speaker = voice;
  guess.before(element("span", "", text)); // a piece of its own: screen readers say what is new
}

function showGuess(text) {
  if (text && !line) beginParagraph();
  guess.textContent = line?.firstChild === guess ? text.trimStart() : text;
  if (!text && line && line.children.length === 1) dropParagraph(); // it came to nothing
}

function showSecond(text, voice = null) {
  second.replaceChildren(...(voice === null ? [] : [speakerName(voice, "")]), text);
  if (text) $("text").append(second); // also after what was added above
  else second.remove();
}

function beginParagraph() {
  if (line) return;
  line = element("span", "line");
  line.append(guess);
  const paragraph = Object.assign(element("p"), { dir: "auto" });
  paragraph.append(line);
  $("text").append(paragraph);
}

function endParagraph() {
  guess.textContent = "";
  guess.remove();
  line = null;
}

function dropParagraph() {
  line.parentElement.remove();
  line = null;
}

/** What is read stays, and the names in it. */
function keepAsItIs() {
  endParagraph();
  speaker = null;
  for (const label of $("text").querySelectorAll("[data-speaker]")) delete label.dataset.speaker;
}

function clear() {
  endParagraph();
  speaker = null;
  $("text").replaceChildren();
}

function trim() {
  if (!looks.isStrip) return;
  while ($("text").querySelectorAll("p:not(.second)").length > PARAGRAPHS) $("text").firstChild.remove();
}

/** Captions are seen, until nothing has come for a while. */
function stay() {
  root.classList.remove("gone");
  clearTimeout(hiding);
  if (looks.hideAfter < Infinity) hiding = setTimeout(() => root.classList.add("gone"), 1000 * looks.hideAfter);
}

// --- the screen ------------------------------------------------------------------------------------------------------

function showState(text) {
  if ($("state").textContent !== text) $("state").textContent = text;
}

function toEnd() {
  $("window").scrollTop = $("window").scrollHeight;
}

function scrolled() {
  const { scrollTop, scrollHeight, clientHeight } = $("window");
  following = scrollHeight - scrollTop - clientHeight < NEAR_END;
  $("jump").hidden = following;
}

function resize(by) {
  size = Math.min(3, Math.max(0.5, size + by));
  root.style.setProperty("--size", size * looks.size);
  try {
    localStorage.setItem(STORE, size);
  } catch {
    // storage may be forbidden: the size holds until the page closes
  }
  if (following) toEnd();
}

function keptSize() {
  try {
    return Number(localStorage.getItem(STORE)) || 1;
  } catch {
    return 1;
  }
}

// --- the beginning ---------------------------------------------------------------------------------------------------

looks.applyTo(root);
let size = looks.isStrip ? 1 : keptSize();
if (!looks.isStrip) resize(0);
$("smaller").addEventListener("click", () => resize(-0.15));
$("larger").addEventListener("click", () => resize(0.15));
$("jump").addEventListener("click", () => {
  following = true;
  toEnd();
});
$("window").addEventListener("scroll", scrolled, { passive: true });
addEventListener("resize", () => following && toEnd());
document.addEventListener("visibilitychange", () => document.hidden || keepAwake());
keepAwake();

if (looks.problems.length) {
  // Whoever makes the address sees this, wherever it is shown, and nothing else.
  root.classList.add("wrong");
  showState(`This address cannot be used: ${looks.problems.join(". ")}`);
} else {
  const reader = new Reader(location.href);
  reader.addEventListener("text", ({ detail }) => show(detail));
  reader.addEventListener("state", ({ detail }) => detail in STATES && showState(STATES[detail]));
}
