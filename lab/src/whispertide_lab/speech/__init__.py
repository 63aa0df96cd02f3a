"""Speech with exact word times, made here: what training learns from and what evaluation listens to.

`sources` and `phrases` give what is written, `texts` and `text` draw from both, `reading` finds how it is said;
`voices` and `manners` are who says it, `speakers`, `espeak`, `flite` and `festival` say it; `talks` and `sentences` are
corpora of it, and `utterance` says what a corpus is.
"""
