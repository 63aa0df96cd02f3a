"""Marks that end a sentence or a clause, or close what was opened, in the scripts that Whisper writes."""

import re

SENTENCE_ENDS = tuple(".?!…。？！؟۔।")
FULL_WIDTH_ENDS = tuple("。？！")  # of sentences; no space follows them
CLAUSE_ENDS = tuple(",;:—、，；：،؛")
CLOSING = "\"'”’»)]」』）】"
AFTER_WORDS = "".join((*SENTENCE_ENDS, *CLAUSE_ENDS, *CLOSING))  # marks that stand after a word
_MARKED = re.compile(rf"[{re.escape(''.join(SENTENCE_ENDS))}][{re.escape(CLOSING)}]*\Z")
# What is written with a full stop and hardly ever ends a sentence: titles before names, and words that announce more.
# Left out is what often does end one, such as "etc.", "p.m." and "Jr.". `server/web/transcript.js` has the same.
ABBREVIATIONS = (
    *("Mr", "Mrs", "Ms", "Messrs", "Dr", "Prof", "Rev", "Hon", "St", "Mt", "Gen", "Col", "Lt", "Sgt", "Capt", "Maj"),
    *("Gov", "Sen", "vs", "e.g", "i.e", "approx"),  # English
    *("Hr", "Dipl", "Nr", "bzw", "ca", "vgl", "z.B", "d.h"),  # German
    *("M", "MM", "Mlle", "cf"),  # French
    *("Sr", "Sra", "Srta", "Dra", "Dña"),  # Spanish, Portuguese
    *("Sig", "Dott", "Avv"),  # Italian
    *("dhr", "mevr", "bijv"),  # Dutch
)
_ABBREVIATED = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, ABBREVIATIONS))})\.\Z")
# A text that begins with a Chinese or Japanese character, if after marks that other scripts have, too. No space parts
# such a text from one that ends so.
CHINESE_OR_JAPANESE = re.compile(
    rf"[“‘…—{re.escape(CLOSING)}]*[\u3001-\u312f\u3400-\u9fff\uf900-\ufaff\uff01-\uff9d\U00020000-\U0003fffd]"
)

# What French parts by a space from the text that it belongs to: marks after that, and the quotation mark before it.
_APART = re.compile(r"\s*[?!:;»]+\s*")
_OPENING = re.compile(r"(?:^|\s)«\s*\Z")
_SINGLE_LETTER = re.compile(r"\s*[\"“«(]?[^\W\d_]\.")


def belong_together(before: str, after: str) -> bool:
    """True if two texts belong together although a space may part them, as French puts it: "« Oui ? »"."""
    return _APART.fullmatch(after) is not None or _OPENING.search(before) is not None


def ends_sentence(text: str) -> bool:
    """True if a text ends a sentence: with a mark that may be followed by a closing quotation mark or bracket, and does
    not belong to an abbreviation.
    """
    return _MARKED.search(text) is not None and not is_abbreviation(text)


def runs_on(text: str) -> bool:
    """True if the last 40 words of a text end no sentence, or all of it, if that is 20 words at least."""
    words = text.split()[-40:]
    return len(words) >= 20 and not any(map(ends_sentence, words))


def may_stand(mark: str, following: str) -> bool:
    """True if a mark may stand before a text, judged by its case: no sentence ends before a small letter."""
    first = next(filter(str.isalpha, following), "")
    return not (ends_sentence(mark) and first.islower())


def is_abbreviation(text: str) -> bool:
    """True if the last word of a text is one of `ABBREVIATIONS`, so that its full stop ends nothing."""
    return _ABBREVIATED.search(text) is not None


def is_initial(before: str, text: str, after: str) -> bool:
    """True if a word is a single letter whose full stop ends no sentence, by the words next to it: of a name
    ("George W. Bush", "J. K. Rowling"), or of words that are shortened to it ("z. B.").
    """
    if not _SINGLE_LETTER.fullmatch(text):
        return False
    if _SINGLE_LETTER.fullmatch(before) or _SINGLE_LETTER.fullmatch(after):
        return True
    first = before.strip()[:1]
    return text[-2].isupper() and (not first or first.isupper())
