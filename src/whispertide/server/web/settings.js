// What the user chose, kept in the browser; the API key only until the tab closes. Knows the form, not the session.

import { element } from "./captions.js";
import { languagesIn, nameOf, termsIn } from "./lists.js";
import { listMicrophones } from "./microphone.js";

const STORE = "whispertide";
const KEY = "whispertide.key";
const CHOICES = ["model", "language", "task", "languages", "keyterms", "prompt", "recipe", "microphone", "channels", "second"];
const CORRECTED = "corrected"; // in place of a language
const DETECT = "auto"; // the server takes it for the wish to have the language detected
const THEMES = ["auto", "light", "dark"];
const MOST_VOICES = 8;
const PATIENT = "tide"; // the recipe whose delay can be chosen

export class Settings {
  #values = { theme: "auto", shortcuts: true, size: 1, microphone: "", ...stored() };
  #key = storedKey();
  hello = null;

  constructor(form) {
    this.form = form;
    form.addEventListener("change", ({ target: { name } }) => CHOICES.includes(name) && this.#chosen(name));
    form.elements.size.addEventListener("input", ({ target }) => this.#setSize(Number(target.value)));
    form.elements.wait.value = this.#values.wait ?? form.elements.wait.min;
    form.elements.wait.addEventListener("input", ({ target }) => {
      this.set("wait", Number(target.value));
      this.#showWait();
    });
    const shortcuts = form.elements.shortcuts;
    shortcuts.checked = this.shortcuts;
    shortcuts.addEventListener("change", () => this.set("shortcuts", shortcuts.checked));
    const voices = form.elements.voices;
    voices.checked = this.#values.voices ?? false;
    voices.addEventListener("change", () => this.set("voices", voices.checked));
    this.#applyLook();
  }

  get shortcuts() {
    return this.#values.shortcuts;
  }

  get theme() {
    return this.#values.theme;
  }

  get microphone() {
    return this.#values.microphone;
  }

  /** How many channels of the microphone are kept apart; 1: they are mixed. */
  get channels() {
    return Number(this.form.elements.channels.value);
  }

  get key() {
    return this.#key;
  }

  set key(value) {
    this.#key = value;
    try {
      sessionStorage.setItem(KEY, value);
    } catch {
      // storage may be forbidden: the key holds until the page closes
    }
  }

  /** The fields of the start message. */
  get start() {
    const { model, recipe, language, task, prompt } = this.form.elements;
    return {
      model: model.value || null,
      recipe: recipe.value || null,
      language: language.value || null,
      task: task.value || "transcribe",
      languages: this.#languages.codes,
      keyterms: this.#keyterms.terms,
      prompt: prompt.value.trim(),
      ...(this.hello?.hears_speakers && this.form.elements.voices.checked ? { speakers: MOST_VOICES } : {}),
    };
  }

  /** What is wrong with a list: { name, fault }, or undefined. */
  get fault() {
    const lists = { languages: this.#languages, keyterms: this.#keyterms };
    return Object.entries(lists).map(([name, { fault }]) => ({ name, fault })).find(({ fault }) => fault);
  }

  /** Those that may be detected; where one is chosen none is. */
  get #languages() {
    const { languages } = this.form.elements;
    return languagesIn(languages.disabled ? "" : languages.value, this.model);
  }

  get #keyterms() {
    return termsIn(this.form.elements.keyterms.value);
  }

  /** The same for live captions, where the user also chooses how long a word may take. */
  get live() {
    const delay = this.#delay;
    const start = { ...this.start, ...this.#second };
    return delay ? { ...start, changes: { delay_s: delay } } : start;
  }

  /** The same where each channel is a speaker: there no voices are told apart. */
  get apart() {
    return { ...this.live, speakers: undefined };
  }

  get #second() {
    const { value } = this.form.elements.second;
    if (value === CORRECTED) return { correct: true };
    return value ? { translate_to: value } : {};
  }

  /** Seconds; 0: the recipe's own, which is the slider's left end, or it is a recipe that has no choice. */
  get #delay() {
    const { wait } = this.form.elements;
    return wait.disabled || wait.value === wait.min ? 0 : Number(wait.value);
  }

  set(name, value) {
    this.#values[name] = value;
    try {
      localStorage.setItem(STORE, JSON.stringify({ ...stored(), [name]: value })); // another tab may have set others
    } catch {
      // private windows may keep nothing: the choice holds until the page closes
    }
  }

  nextTheme() {
    this.set("theme", THEMES[(THEMES.indexOf(this.theme) + 1) % THEMES.length]);
    this.#applyLook();
  }

  /** Make the text larger or smaller by one step. */
  resize(by) {
    this.#setSize(Math.max(0.8, Math.min(2, this.#values.size + 0.1 * by)));
  }

  /** The model that is chosen, as the server describes it. */
  get model() {
    return this.hello.models.find(({ name }) => name === this.#select("model").value);
  }

  /** Offer what the server has. */
  offer(hello) {
    this.hello = hello;
    const model = hello.models.find(({ name }) => name === this.#values.model) ?? usualModel(hello);
    fill(this.#select("model"), hello.models.map(({ name }) => [name, name]), model.name);
    const names = hello.recipes.map(({ name }) => name);
    const chosen = names.includes(this.#values.recipe) ? this.#values.recipe : hello.recipe;
    this.form.querySelector("#recipes").replaceChildren(...hello.recipes.map((recipe) => choice(recipe, chosen)));
    for (const name of ["languages", "keyterms", "prompt"]) this.#select(name).value = this.#values[name] ?? "";
    this.#select("channels").value = this.#values.channels ?? "1";
    this.form.querySelector("#voices").hidden = !hello.hears_speakers;
    this.#showWait();
    this.#offerText();
    this.#offerSecond();
  }

  async offerMicrophones() {
    const found = await listMicrophones();
    const named = found.filter(({ deviceId, label }) => label && deviceId !== "default" && deviceId !== "communications");
    const items = [["", "Default"], ...named.map(({ deviceId, label }) => [deviceId, label])];
    fill(this.#select("microphone"), items, this.#values.microphone);
  }

  #offerText() {
    const named = this.model.languages.map((code) => [code, nameOf(code)]).sort((a, b) => a[1].localeCompare(b[1]));
    const select = this.#select("language");
    const chosen = this.#values.language ?? this.hello.language ?? DETECT;
    fill(select, named.length > 1 ? [[DETECT, "Detect"], ...named] : named, chosen);
    select.disabled = named.length < 2;
    const tasks = [["transcribe", "As spoken"], ...(this.model.translates ? [["translate", "In English"]] : [])];
    fill(this.#select("task"), tasks, this.#values.task ?? this.hello.task);
    this.#select("task").disabled = tasks.length < 2;
    this.#checkLists();
  }

  #checkLists() {
    this.#select("languages").disabled = this.#select("language").value !== DETECT;
    for (const [name, { fault }] of Object.entries({ languages: this.#languages, keyterms: this.#keyterms })) {
      this.form.querySelector(`#${name}-fault`).textContent = fault;
      this.#select(name).setAttribute("aria-invalid", String(Boolean(fault)));
    }
  }

  /** What the operator lets be translated; the first language, unless the user chose otherwise. */
  #offerSecond() {
    const { translations = [], corrects = false } = this.hello;
    const items = [["", "None"], ...translations.map((code) => [code, nameOf(code)])];
    if (corrects) items.push([CORRECTED, "Corrected"]);
    fill(this.#select("second"), items, this.#values.second ?? translations[0] ?? "");
    this.form.querySelector("#second").hidden = items.length < 2;
  }

  #setSize(size) {
    this.set("size", Math.round(10 * size) / 10);
    this.#applyLook();
  }

  #chosen(name) {
    this.set(name, this.#select(name).value);
    if (name === "recipe") this.#showWait();
    if (name === "model") this.#offerText();
    if (this.hello) this.#checkLists();
  }

  #showWait() {
    const { wait, recipe } = this.form.elements;
    wait.disabled = recipe.value !== PATIENT;
    const shown = this.#delay ? `${this.#delay.toFixed(2)} s` : "default";
    this.form.querySelector("#delay-shown").textContent = shown;
    wait.setAttribute("aria-valuetext", shown);
  }

  #select(name) {
    return this.form.elements[name];
  }

  #applyLook() {
    document.documentElement.dataset.theme = this.theme;
    document.documentElement.style.setProperty("--size", this.#values.size);
    this.form.elements.size.value = this.#values.size;
    const percent = `${Math.round(100 * this.#values.size)} %`;
    this.form.elements.size.setAttribute("aria-valuetext", percent);
    this.form.querySelector("#size-shown").textContent = percent;
  }
}

/** The first model that can write what is usual on the server, as for a client that names none. */
function usualModel({ models, language, task }) {
  const can = ({ languages, translates }) => (!language || languages.includes(language)) && (task !== "translate" || translates);
  return models.find(can) ?? models[0];
}

/** One recipe to choose, and what the server says it is like. */
function choice({ name, about }, chosen) {
  const label = element("label", "choice");
  const button = Object.assign(element("input"), { type: "radio", name: "recipe", value: name, checked: name === chosen });
  label.append(button, element("strong", "", name), element("span", "", about));
  return label;
}

function fill(select, items, chosen) {
  select.replaceChildren(...items.map(([value, text]) => new Option(text, value)));
  if (items.some(([value]) => value === chosen)) select.value = chosen;
}

function storedKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return "";
  }
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORE)) ?? {};
  } catch {
    return {};
  }
}
