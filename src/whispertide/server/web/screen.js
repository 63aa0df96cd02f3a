// What the page shows besides the words, and its settings: modules that know nothing of each other, on their elements.

import { BigCaptions } from "./big.js";
import { clock } from "./captions.js";
import { Gauges } from "./gauges.js";
import { Caution, ProblemNotice } from "./notices.js";
import { Settings } from "./settings.js";
import { Status } from "./status.js";

export const $ = (id) => document.getElementById(id);

export function on(id, act) {
  $(id).addEventListener("click", act);
}

export const settings = new Settings($("settings-form"));
export const big = new BigCaptions($("big"), $("big-top"), [$("status"), $("problem"), $("log")]);
export const status = new Status($("status"), $("status-text"));
export const gauges = new Gauges({ canvas: $("level"), time: $("time"), delay: $("delay"), button: $("record") });
export const notice = new ProblemNotice(
  { box: $("problem"), title: $("problem-title"), text: $("problem-text"), action: $("problem-action"), close: $("problem-close") },
  () => $("key").showModal(),
);
const caution = new Caution({
  box: $("caution"),
  model: $("caution-model"),
  text: $("caution-text"),
  other: $("caution-other"),
  command: document.querySelector("#caution code"),
  close: $("caution-close"),
});

/** Offer what the server has, where that is new: a form that somebody fills in stays as it is. */
export function meet(hello) {
  if (JSON.stringify(hello) === JSON.stringify(settings.hello)) return;
  settings.offer(hello);
  showCaution();
}

export function showReady() {
  status.ready(settings.start.model);
}

/** What the chosen model's maker warns of, as the server tells it. */
function showCaution() {
  caution.show(settings.model, settings.hello.models);
}

export function showClock(samples) {
  $("time").textContent = clock(samples);
}

export function showRunning(on) {
  for (const button of [$("record"), $("big-record")]) {
    button.classList.toggle("running", on);
    button.querySelector("use").setAttribute("href", on ? "#i-stop" : "#i-mic");
    button.querySelector("span").textContent = on ? "Stop" : "Start";
  }
  $("tab").disabled = $("file").disabled = on;
}

/** What can be done with a transcript of so many words. */
export function showTools(words) {
  for (const id of ["copy", "save", "clear"]) $(id).disabled = !words.length;
}

on("theme", () => {
  settings.nextTheme();
  gauges.draw();
  status.flash(`Appearance: ${settings.theme}`);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => gauges.draw());
on("big-open", () => big.toggle());
on("big-close", () => big.toggle());
on("big-smaller", () => settings.resize(-1));
on("big-larger", () => settings.resize(1));
settings.form.elements.model.addEventListener("change", showCaution);
