// Lists as a person types them: between commas, or a line each. What is wrong with one is said in words.

const MOST_TERMS = 500; // these two as in options.py
const LONGEST_TERM = 100; // characters

/** The entries of a list, each once. */
export function entriesOf(text) {
  return [...new Set(text.split(/[,\n]/).map((entry) => entry.trim()).filter(Boolean))];
}

/** Languages by code, tag ("de-AT") or English name -> { codes, fault }. `model` has the codes that it knows, `nameOf` gives
 * the English name of a code; `fault` is "" or says what is wrong. */
export function languagesIn(text, model, nameOf) {
  const named = new Map(model.languages.map((code) => [nameOf(code).toLowerCase(), code]));
  const codeOf = (entry) => {
    const code = entry.toLowerCase().split(/[-_]/)[0];
    return model.languages.includes(code) ? code : named.get(entry.toLowerCase());
  };
  const wrong = entriesOf(text).filter((entry) => !codeOf(entry));
  const codes = [...new Set(entriesOf(text).map(codeOf))].filter(Boolean);
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
