// Where a text of a script without spaces may be cut, as the package's `phrases` module has it: by BudouX's models, which
// the server has. Offsets count characters.

const THAI = /[\u0e00-\u0e7f]/u;
const KANA = /[\u3040-\u30ff]/u;
const HAN = /[\u3400-\u9fff\u{20000}-\u{3fffd}]/u;
const MODELS = { ja: ["ja", "ja_word"], zh: ["zh-hans"], yue: ["zh-hant"], th: ["th"] };
// Which characters around a place a score is for.
const FEATURES = {
  UW1: [-3, -2], UW2: [-2, -1], UW3: [-1, 0], UW4: [0, 1], UW5: [1, 2], UW6: [2, 3],
  BW1: [-2, 0], BW2: [-1, 1], BW3: [0, 2],
  TW1: [-3, 0], TW2: [-2, 1], TW3: [-1, 2], TW4: [0, 3],
};
const loaded = new Map();

const ofHan = (language) => (language === "ja" || language === "yue" ? language : "zh");

function languageOf(text, language) {
  if (THAI.test(text)) return "th";
  if (KANA.test(text)) return "ja";
  return HAN.test(text) ? ofHan(language) : "";
}

/** Fetch the models that a text needs. Without them it is cut anywhere. */
export async function prepare(text, language) {
  const languages = [THAI.test(text) && "th", KANA.test(text) && "ja", HAN.test(text) && ofHan(language)].filter(Boolean);
  const missing = languages.flatMap((code) => MODELS[code]).filter((name) => !loaded.has(name));
  await Promise.all(missing.map(async (name) => {
    const answer = await fetch(`phrases/${name}.json`).catch(() => null);
    if (answer?.ok) loaded.set(name, await answer.json());
  }));
}

/** The offsets at which phrases begin, and then those at which words do, where these are known apart. */
export function starts(text, language) {
  const models = (MODELS[languageOf(text, language)] ?? []).map((name) => loaded.get(name)).filter(Boolean);
  return models.map((model) => offsets(model, [...text]));
}

function offsets(model, letters) {
  const sum = (values) => values.reduce((total, value) => total + value, 0);
  const base = -0.5 * sum(Object.values(model).map((group) => sum(Object.values(group))));
  const found = new Set();
  for (let at = 1; at < letters.length; at++) {
    let score = base;
    for (const [name, [first, last]] of Object.entries(FEATURES)) {
      if (at + first < 0 || at + last > letters.length) continue;
      score += model[name]?.[letters.slice(at + first, at + last).join("")] ?? 0;
    }
    if (score > 0) found.add(at);
  }
  return found;
}
