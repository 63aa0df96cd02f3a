// A transcript as subtitle cues, by the rules of the package's `subtitles` module, which explains them; so a download
// here and a file written by the command line are the same. Time is in samples at 16 kHz.

import { starts as startsOf } from "./phrases.js";
import { RATE } from "./sound.js";
import { ABBREVIATED, belongTogether, CHINESE_BEGIN, CHINESE_END, CLOSING, inseparable, Segmenter } from "./transcript.js";

const LINE_WIDTH = 42;
const SHORTEST = RATE;
const LONGEST = 7 * RATE;
const LEAST = RATE / 10;
const BREATH = (3 * RATE) / 10;
const PHRASES = { chars: Infinity, span: Infinity };

const AT_COMMA = 1.0;
const AT_BREATH = 1.5;
const ANYWHERE = 4.0;
const AFTER_SHORT_WORD = 3.0;
const IN_PHRASE = 6.0;
const IN_WORD = 50.0;
const TWO_PHRASES = 3.0;
const TOO_SHORT = 8.0;
const UNSPACED = "\u0e00";

const ENDS = /[,;:—、，；：،؛.?!…。？！؟۔।]$/u;
const NOT_FIRST = /^[,;:—、，；：.?!…。？！"'”’»)\]」』）】]/u;
const MARK = /[\p{Mn}\p{Me}\p{Cf}]/u;
const WIDE = /[\u1100-\u115f\u2e80-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe4f\uff01-\uff60\uffe0-\uffe6\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;

const sized = (unit) => unit.end > unit.start;
const endsClause = ({ text }) => ENDS.test(text.replace(CLOSING, "").trimEnd()) && !ABBREVIATED.test(text);

function isShort({ text }) {
  const letters = [...text];
  const short = letters.length <= 3 && /\p{L}/u.test(letters.at(-1)) && letters.at(-1) < UNSPACED;
  return short || ABBREVIATED.test(text);
}

/** Cues `{ start, end, text, speaker }`; `clean` takes out of a text what its file format cannot hold, `label` is what that shows
 * before the text of a voice where the voice changes. Of scripts without spaces the models are known that `phrases.prepare` has
 * fetched. */
export function cues(segments, language, clean = (text) => text, label = () => "") {
  const found = [];
  let run = [];
  const finish = () => found.push(...cut(labelled(run, label, found.at(-1))));
  for (const { words, speaker } of segments) {
    if (run.length && run.at(-1).speaker !== speaker) {
      finish();
      run = [];
    }
    const segmenter = new Segmenter(PHRASES);
    for (const phrase of [...segmenter.push(words), ...segmenter.endTurn()]) {
      for (const unit of unitsOf(phrase.words, clean, language, run.at(-1)?.text ?? "")) run.push(unit);
    }
  }
  finish();
  return timed(labelledAgain(byTime(found), label));
}

/** Cues of voices that speak at once in the order in which they begin; those of one voice stay in theirs. */
function byTime(found) {
  const voices = new Map(found.map(([{ speaker }]) => [speaker, []]));
  for (const units of found) voices.get(units[0].speaker).push(units);
  const sooner = (one, other) => (startOf(other[0]) < startOf(one[0]) ? other : one);
  return found.map(() => [...voices.values()].filter(({ length }) => length).reduce(sooner).shift());
}

/** Label the voice of units that come after those `before`, if it is another one. */
function labelled(units, label, before) {
  if (!units.length) return units;
  const [first, ...others] = units;
  return [{ ...first, label: before?.at(-1).speaker === first.speaker ? "" : label(first.speaker) }, ...others];
}

/** Label voices where they change now that cues are in the order of their times: one that goes on after another has interrupted it
 * has a label more, for which it may have to be cut. */
function labelledAgain(found, label) {
  const again = [];
  for (const cue of found) {
    const units = labelled(cue, label, again.at(-1));
    again.push(...(breakOf(units) === null ? cut(units) : [units]));
  }
  return again;
}

// --- words -> units

function unitsOf(words, clean, language, preceding) {
  const units = [];
  for (const part of parts(words, preceding)) {
    const before = units.at(-1);
    if (before && !mayBreak(before, part)) {
      const known = [before, part].filter(sized);
      const [first, last] = known.length ? [known[0], known.at(-1)] : [before, before];
      units[units.length - 1] = { ...before, text: joined([before, part]), start: first.start, end: last.end };
    } else {
      units.push(part);
    }
  }
  markTorn(units, language);
  const cleaned = units.map((unit) => ({ ...unit, text: clean(unit.text) })).filter(({ text }) => text);
  if (cleaned.length) cleaned.at(-1).closes = true;
  return cleaned;
}

/** What a break before each unit costs because it is in a word or phrase. */
function markTorn(units, language) {
  for (let first = 0; first < units.length; ) {
    let last = first + 1;
    while (last < units.length && !units[last].spaced) last++;
    const stretch = units.slice(first, last);
    const known = stretch.length > 1 ? startsOf(stretch.map(({ text }) => text).join(""), language) : [];
    let at = 0;
    for (const unit of stretch) {
      const level = known.findIndex((offsets) => offsets.has(at));
      unit.torn = !at || !known.length || level === 0 ? 0 : level > 0 ? IN_PHRASE : IN_WORD;
      at += [...unit.text].length;
    }
    first = last;
  }
}

function* parts(words, preceding) {
  let spaced = !(CHINESE_END.test(preceding) && CHINESE_BEGIN.test(words[0].text));
  for (const { text, start, end, speaker } of words) {
    const pieces = text.split(/\s+/u).filter(Boolean);
    spaced ||= /^\s/u.test(text);
    const total = [...pieces.join("")].length;
    const length = Math.max(end - start, 0);
    let at = 0;
    for (const piece of pieces) {
      const first = start + Math.floor((length * at) / total);
      at += [...piece].length;
      const last = start + Math.floor((length * at) / total);
      yield { text: piece, spaced, start: first, end: last, closes: false, speaker };
      spaced = true;
    }
    spaced = /\s$/u.test(text) || (spaced && !pieces.length);
  }
}

function mayBreak({ text: before }, { text: after, spaced }) {
  if (spaced) return !belongTogether(before, after);
  const unspaced = [...before].at(-1) >= UNSPACED && after >= UNSPACED;
  return unspaced && !NOT_FIRST.test(after) && !inseparable(before, after);
}

function widthOf(text) {
  let width = 0;
  for (const letter of text) width += MARK.test(letter) ? 0 : WIDE.test(letter) ? 2 : 1;
  return width;
}

const shown = ({ text, label = "" }) => label + text;
const joined = (units) => units.map((unit, index) => (unit.spaced && index ? " " : "") + shown(unit)).join("");

// --- units -> cues

function cut(units) {
  const width = measure(units);
  const best = [[0, 0]];
  for (let end = 1; end <= units.length; end++) {
    let least = null;
    for (const start of starts(units, width, end)) {
      const cost = best[start][0] + costOf(units, width, start, end);
      if (!least || cost <= least[0]) least = [cost, start]; // of equals the earlier start, which comes later here
    }
    best.push(least);
  }
  const found = [];
  for (let end = units.length; end; end = best[end][1]) found.unshift(units.slice(best[end][1], end));
  return found;
}

/** How wide a line of `units[first..last]` is, without the last. */
function measure(units) {
  const edges = [0];
  for (const unit of units) edges.push(edges.at(-1) + widthOf(shown(unit)) + unit.spaced);
  return (first, last) => edges[last] - edges[first] - units[first].spaced;
}

function* starts(units, width, end) {
  yield end - 1;
  let line = end - 1;
  if (width(line, end) > LINE_WIDTH) return;
  for (let start = end - 2; start >= 0; start--) {
    if (line === start + 1 && width(start, end) <= LINE_WIDTH) line = start;
    const cue = units.slice(start, end);
    if ((line > start && width(start, line) > LINE_WIDTH) || endOf(cue) - startOf(cue) > LONGEST) return;
    yield start;
  }
}

function costOf(units, width, start, end) {
  const last = units[end - 1];
  const empty = 1 - Math.min(1, width(start, end) / (2 * LINE_WIDTH));
  let cost = empty * empty + tearOf(units, width, start, end);
  for (let at = start; at < end - 1; at++) {
    if (units[at].closes) cost += TWO_PHRASES * (1 + Math.max(0, units[at + 1].start - units[at].end) / RATE);
  }
  if (end === units.length) return cost;
  cost += units[end].torn;
  if (!last.closes) {
    const breath = sized(last) && sized(units[end]) && units[end].start - last.end >= BREATH;
    const anywhere = ANYWHERE + AFTER_SHORT_WORD * isShort(last);
    cost += endsClause(last) ? AT_COMMA : breath ? AT_BREATH : anywhere;
  }
  const shown = startOf(units, end) - startOf(units.slice(start, end));
  return cost + TOO_SHORT * (1 - Math.min(SHORTEST, Math.max(0, shown)) / SHORTEST);
}

/** What it costs that the lines of a cue can only be parted in a phrase or word. */
function tearOf(units, width, start, end) {
  if (width(start, end) <= LINE_WIDTH || !units.slice(start, end).some(({ torn }) => torn)) return 0;
  let least = Infinity;
  for (let at = start + 1; at < end; at++) {
    if (Math.max(width(start, at), width(at, end)) <= LINE_WIDTH) least = Math.min(least, units[at].torn);
  }
  return least === Infinity ? 0 : least;
}

function startOf(units, first = 0) {
  for (let at = first; at < units.length; at++) if (sized(units[at])) return units[at].start;
  return units[first].start;
}

const endOf = (units) => Math.max(...units.map(({ end }) => end));

// --- cues on the screen

/** The first unit of the second line of a cue (its length: there is none); null if it does not fit. */
function breakOf(units) {
  const width = measure(units);
  const count = units.length;
  if (count === 1 || width(0, count) <= LINE_WIDTH) return count;
  let least = null;
  for (let at = 1; at < count; at++) {
    const [first, second] = [width(0, at), width(at, count)];
    if (Math.max(first, second) > LINE_WIDTH) continue;
    const clumsy = !endsClause(units[at - 1]) + 1.5 * isShort(units[at - 1]) + units[at].torn;
    const cost = Math.abs(first - second) / 20 + clumsy;
    if (!least || cost < least[0]) least = [cost, at];
  }
  return least && least[1];
}

function timed(found) {
  const begins = [];
  for (const units of found) begins.push(Math.max(startOf(units), begins.length ? begins.at(-1) + LEAST : 0));
  return found.map((units, index) => {
    const start = begins[index];
    const end = Math.min(Math.max(endOf(units), start + SHORTEST), start + LONGEST, begins[index + 1] ?? Infinity);
    const at = breakOf(units) ?? units.length;
    const lines = [units.slice(0, at), units.slice(at)].filter((line) => line.length);
    return { start, end, text: lines.map(joined).join("\n"), speaker: units[0].speaker };
  });
}
