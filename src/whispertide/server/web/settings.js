// What the user chose, kept in the browser; the API key only until the tab closes. Knows the form, not the session.

import { listMicrophones } from "./microphone.js";

const STORE = "whispertide";
const KEY = "whispertide.key";
const CHOICES = ["model", "language", "recipe", "microphone"];
const THEMES = ["auto", "light", "dark"];


export class Settings {
  #values = { theme: "auto", shortcuts: true, size: 1, ...stored() };
  hello = null;

  constructor(form) {
    this.form = form;
    for (const name of CHOICES) this.#select(name).addEventListener("change", () => this.#chosen(name));
    const shortcuts = form.elements.shortcuts;
    shortcuts.checked = this.shortcuts;
    shortcuts.addEventListener("change", () => this.set("shortcuts", shortcuts.checked));
    this.#applyLook();
  }

  get shortcuts() {
    return this.#values.shortcuts;
  }

  get theme() {
    return this.#values.theme;
  }

  get microphone() {
    return this.#select("microphone").value;
  }

  get key() {
    return sessionStorage.getItem(KEY) ?? "";
  }

  set key(value) {
    if (value) sessionStorage.setItem(KEY, value);
    else sessionStorage.removeItem(KEY);
  }

  /** The fields of the start message. */
  get start() {
    const { model, recipe, language } = this.form.elements;
    return { model: model.value || null, recipe: recipe.value || null, language: language.value || null };
  }

  set(name, value) {
    this.#values[name] = value;
    try {
      localStorage.setItem(STORE, JSON.stringify(this.#values));
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
    this.set("size", Math.max(0.8, Math.min(2, this.#values.size + 0.1 * by)));
    this.#applyLook();
  }

  /** Offer what the server has. */
  offer(hello) {
    this.hello = hello;
    fill(this.#select("model"), hello.models.map(({ name }) => [name, name]), this.#values.model);
    const recipes = hello.recipes.map((name) => [name, name]);
    fill(this.#select("recipe"), recipes, this.#values.recipe ?? hello.recipe);
    this.#offerLanguages();
  }

  async offerMicrophones() {
    const found = await listMicrophones();
    const named = found.filter(({ deviceId, label }) => label && deviceId !== "default" && deviceId !== "communications");
    const items = [["", "Default"], ...named.map(({ deviceId, label }) => [deviceId, label])];
    fill(this.#select("microphone"), items, this.#values.microphone);
  }

  #offerLanguages() {
    const model = this.hello.models.find(({ name }) => name === this.#select("model").value);
    const names = new Intl.DisplayNames(["en"], { type: "language" });
    const named = model.languages.map((code) => [code, nameOf(names, code)]).sort((a, b) => a[1].localeCompare(b[1]));
    const select = this.#select("language");
    fill(select, named.length > 1 ? [["", "Detect"], ...named] : named, this.#values.language);
    select.disabled = named.length < 2;
  }

  #chosen(name) {
    this.set(name, this.#select(name).value);
    if (name === "model") this.#offerLanguages();
  }

  #select(name) {
    return this.form.elements[name];
  }

  #applyLook() {
    document.documentElement.dataset.theme = this.theme;
    document.documentElement.style.setProperty("--size", this.#values.size);
  }
}

function nameOf(names, code) {
  try {
    return names.of(code) ?? code;
  } catch {
    return code;
  }
}

function fill(select, items, chosen) {
  select.replaceChildren(...items.map(([value, text]) => new Option(text, value)));
  if (items.some(([value]) => value === chosen)) select.value = chosen;
}

function stored() {
  try {
    return JSON.parse(localStorage.getItem(STORE)) ?? {};
  } catch {
    return {};
  }
}
