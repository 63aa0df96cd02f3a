// Lists as a person types them: between commas, or a line each. What is wrong with one is said in words.

const MOST_TERMS = 500; // these two as in options.py
const LONGEST_TERM = 100; // characters

/** The entries of a list, each once. */
export function entriesOf(text) {
  return [...new Set(text.split(/[,\n]/).map((entry) => entry.trim()).filter(Boolean))];
}

const NAMES = new Intl.DisplayNames(["en"], { type: "language" });

/** The English name of a language, or its code where it has none. */
export function nameOf(code) {
  try {
    return NAMES.of(code) ?? code;
  } catch {
    return code;
  }
}

/** A language by code, tag ("de-AT") or English name -> which of `codes` it is, or undefined. */
export function codeOf(entry, codes) {
  const code = entry.toLowerCase().split(/[-_]/)[0];
  return codes.includes(code) ? code : codes.find((each) => nameOf(each).toLowerCase() === entry.toLowerCase());
}

/** Languages -> { codes, fault }. `model` has the codes that it knows; `fault` is "" or says what is wrong. */
export function languagesIn(text, model) {
  const wrong = entriesOf(text).filter((entry) => !codeOf(entry, model.languages));
  const found = entriesOf(text).map((entry) => codeOf(entry, model.languages));
  const codes = [...new Set(found)].filter(Boolean);
  const fault = wrong.length ? `${model.name} does not know ${wrong.map((entry) => `“${entry}”`).join(", ")}. Expected codes or English names, such as de, English.` : "";
  return { codes, fault };
}

/** Key terms -> { terms, fault }. */
export function termsIn(text) {
  const terms = entriesOf(text);
  const long = terms.find((term) => term.length > LONGEST_TERM);
  if (long) return { terms, fault: `Expected terms of at most ${LONGEST_TERM} characters, with commas between them; “${long.slice(0, 40)}…” is longer.` };
  const fault = terms.length > MOST_TERMS ? `Expected at most ${MOST_TERMS} terms; there are ${terms.length}.` : "";
  return { terms, fault };
}
