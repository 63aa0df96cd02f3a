"""Marks that end a sentence or a clause, or close what was opened, in the scripts that Whisper writes. Data only."""

import re

SENTENCE_ENDS = tuple(".?!…。？！؟۔।")
FULL_WIDTH_ENDS = tuple("。？！")  # of sentences; no space follows them
CLAUSE_ENDS = tuple(",;:—、，；：،؛")
CLOSING = "\"'”’»)]」』）】"
# Finds whether a text ends a sentence: with a mark, after which there is at most what closes a quotation or a bracket.
ENDS_SENTENCE = re.compile(rf"[{re.escape(''.join(SENTENCE_ENDS))}][{re.escape(CLOSING)}]*\Z")
# A text that begins with a Chinese or Japanese character, if after marks that other scripts have, too. No space parts
# such a text from one that ends so.
CHINESE_OR_JAPANESE = re.compile(
    rf"[“‘…—{re.escape(CLOSING)}]*[\u3001-\u312f\u3400-\u9fff\uf900-\ufaff\uff01-\uff9d\U00020000-\U0003fffd]"
)
