"""The search token by token, of three parts: how tokens are accepted, what is drafted ahead, what ends the text.

It starts with one row, since at first all hypotheses are equal, and becomes as many as `accept` wants. With a draft it
stays one row as long as it finds what the draft expects; the first token that is not expected is where it widens: that
step's choices seed the other rows. Once the best hypothesis is what the draft expects again, the others go. End of text
is accepted wherever one row finds it. Guards and the prompt's limit end any search. Key terms that may come next are
tried by one row like a draft (`term_trials`), and weigh in the choices of several. No I/O; the model is on the other
side of the requests.

Source of the narrow search: WhisperFlow (arXiv 2412.11272), whose code samples its candidates, counts end of text as a
word, and never gets narrow again.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from whispertide.decoding.accept import GREEDY, Accept, Beam, Choice, Sampling
from whispertide.decoding.draft import Draft
from whispertide.decoding.end import End
from whispertide.decoding.key_terms import KeyTerms, Place
from whispertide.decoding.prompt import Prompt
from whispertide.decoding.rules import Distribution, Rules, no_speech, opening_request, step_request, trial_request
from whispertide.decoding.search import (
    NO_STEPS,
    Guard,
    Hypothesis,
    Hypothesized,
    SearchResult,
    Steps,
    StopReason,
    Verdict,
    truncation,
)
from whispertide.decoding.term_trials import TermTrials
from whispertide.model.engine import DecodeOutput, DecodeRequest
from whispertide.options import DecodeOptions
from whispertide.types import FloatArray


class TokenSearch:
    """Finds the tokens after `prompt`. `draft` None: nothing is expected. `end` None: end of text ends the text.

    The finished hypotheses are ranked by their probability, length-normalised by `length_penalty`.
    """

    def __init__(
        self,
        prompt: Prompt,
        rules: Rules,
        accept: Accept,
        *,
        draft: Draft | None = None,
        end: End | None = None,
        length_penalty: float | None = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._prompt = prompt
        self._rules = rules
        self._accept = accept
        self._draft = draft
        self._end = end
        self._length_penalty = length_penalty
        self._guards = guards
        self._terms = rules.terms
        self._trials = None if rules.terms is None or accept.independent else TermTrials(rules.terms)
        # While terms are tried: what followed before that, and what the newest queries had attended to.
        self._asked: tuple[Distribution, FloatArray | None] | None = None
        self._live = [Hypothesis()]
        self._finished: list[Hypothesized] = []
        self._narrow = draft is not None
        self._ahead: tuple[int, ...] = ()  # what is fed ahead, after the newest token or the prompt
        self._raw = False  # whether the newest request left it to the search to suppress
        self._steps = NO_STEPS
        self._no_speech_prob = float("nan")

    def next(self) -> DecodeRequest:
        """The prompt in one row, then the newest token of every row; what is drafted goes with them."""
        trial = () if self._trials is None else self._trials.trial
        self._ahead = ahead = trial or self._drafted()
        if not self._steps.runs:
            request = opening_request(self._prompt, ahead)
        elif trial:
            request = trial_request(trial, parent=self._live[0].parent)
        else:
            rows = [hypothesis.tokens for hypothesis in self._live]
            parents = tuple(hypothesis.parent for hypothesis in self._live)
            whole = self._accept.whole
            request = step_request(rows, self._rules, parents=parents, whole=whole, draft=ahead)
        self._raw = request.suppress is None
        return request

    def feed(self, output: DecodeOutput) -> Verdict:
        """Extend the hypotheses; along what was fed ahead as far as it is what they go on with."""
        before = -1 if self._asked is not None else 0  # tokens that were fed in front of the newest one
        is_first = not self._steps.runs
        if is_first:
            before = len(self._prompt.tokens) - 1
            self._no_speech_prob = no_speech(output, self._rules)
        self._steps += Steps.run(len(self._live), prompt=is_first)
        stands = 0  # how much of what was fed ahead does
        while True:
            query = before + stands
            # The first time with all queries of the prompt: word times are warped over the forced prefix, too.
            queries = slice(query if stands else 0, query + 1)
            attention = None if output.attention is None else output.attention[:, :, queries]
            if not self._look_for_terms(partial(self._following, output, stands), attention, self._ahead[stands:]):
                self._live = [replace(self._live[0], parent=0)]
                return Verdict(False, query + 1)
            is_granted = self._trials is not None and self._trials.is_granted
            self._extend(*(self._asked or (self._following(output, stands), attention)))
            self._asked = None
            is_over = self._is_over()
            # What was fed ahead counts as far as it is what the search itself has found.
            goes_on = (self._narrow or is_granted) and not is_over
            if not goes_on or self._ahead[stands : stands + 1] != self._live[0].tokens[-1:]:
                return Verdict(is_over, query + 1)
            stands += 1

    def _following(self, output: DecodeOutput, stands: int, ahead: Sequence[int] = ()) -> Distribution:
        """The distribution after so much of what was fed ahead stands, and after more of it."""
        if self._asked is not None and not stands and not ahead:
            return self._asked[0]
        rows = [(*hypothesis.tokens, *ahead) for hypothesis in self._live]
        # Counted from the end of what was asked for: sot's place may stand in front, and drafts stand after the newest
        # token.
        place = stands + len(ahead) - 1 - len(self._ahead)
        return Distribution(output, place, rows, self._rules, self._raw)

    def _look_for_terms(
        self,
        following: Callable[[Sequence[int]], Distribution],
        attention: FloatArray | None,
        ahead: Sequence[int] = (),
    ) -> bool:
        """Look for a key term that the only hypothesis goes on with; False: tokens have to be fed first to tell.

        `following` gives the distribution after some of what was fed `ahead`.
        """
        if self._trials is None or self._terms is None or not self._is_alone:
            return True
        leading = self._live[0]
        is_decided = self._trials.look(
            self._place(leading, self._terms),
            ahead,
            lambda more: following(more).logprobs()[0],
            room=self._prompt.limit - len(leading.tokens) - 1,
        )
        if not is_decided:
            self._asked = self._asked or (following(()), attention)
        return is_decided

    @property
    def _is_alone(self) -> bool:
        """True if one hypothesis goes on by itself, without others to be weighed against."""
        return self._narrow or self._accept.rows == 1

    def _place(self, hypothesis: Hypothesis, terms: KeyTerms) -> Place:
        """Where it is in the key terms, its forced beginning included."""
        if hypothesis.place is not None:
            return hypothesis.place
        return terms.after((*self._prompt.tokens, *hypothesis.tokens))

    def resume(
        self,
        hypotheses: Sequence[Hypothesis],
        following: Distribution,
        attention: FloatArray | None,
        *,
        rows: int,
        no_speech_prob: float,
    ) -> bool:
        """Begin with `hypotheses` that another's first run of so many `rows` has fed; returns whether that ends it.

        The `parent` of each is its row in that run. `following` and `attention` [heads, hypotheses, queries, frames]
        are of these hypotheses alone, in their order.
        """
        self._no_speech_prob = no_speech_prob
        self._steps += Steps.run(rows)
        self._live = list(hypotheses)
        if not self._look_for_terms(lambda _: following, attention):
            return False
        self._extend(following, attention)
        # `_extend` counts rows among these hypotheses, but the cache is that of the run, which may have had more.
        self._live = [replace(each, parent=hypotheses[each.parent].parent) for each in self._live]
        return self._is_over()

    @property
    def is_settled(self) -> bool:
        """True if a hypothesis that has ended is likelier than all that go on, or none goes on."""
        ended = max((each.sum_logprob + each.gain for each in self._finished), default=-np.inf)
        return all(ended >= each.score for each in self._live)

    def result(self) -> SearchResult:
        """The best-ranked hypothesis; unfinished ones fill up where fewer than there are rows have finished."""
        stop: StopReason = "length" if self._is_full() else "aborted"
        # With patience more than that may have finished.
        missing = max(self._accept.rows - len(self._finished), 0)
        unfinished = [self._closed(hypothesis, stop) for hypothesis in self._live[:missing]]
        # Where every continuation was forbidden, there is neither.
        nothing = [] if self._finished or unfinished else [Hypothesized((), (), -np.inf, "aborted")]
        # Equals keep their order.
        found = [*self._finished, *unfinished, *nothing]
        ranked = sorted(found, key=lambda hypothesis: hypothesis.score(self._length_penalty), reverse=True)
        return SearchResult(ranked[0], self._no_speech_prob, self._steps, others=tuple(ranked[1:]))

    def _drafted(self) -> tuple[int, ...]:
        if self._draft is None or not self._narrow:
            return ()
        sampled = self._live[0].tokens
        return self._draft.propose(sampled)[: self._prompt.limit - len(sampled) - 1]  # never the last

    def _extend(self, following: Distribution, attention: FloatArray | None) -> None:
        """Replace the live hypotheses by their continuations; `attention` is of the newest queries, for all rows."""
        before, was_narrow, terms = self._live, self._narrow, self._terms
        if self._trials is not None and terms is not None:
            self._trials.move()
            if not self._is_alone:
                following = replace(following, within=[self._place(each, terms) for each in before])
        seen = [hypothesis.seen for hypothesis in before]
        if attention is not None:
            seen = [(*pieces, attention[:, row]) for row, pieces in enumerate(seen)]
        width, choices = self._choices(following)
        # With patience more hypotheses may finish than there are rows, but no more than are enough.
        room = self._accept.enough - len(self._finished)
        live: list[Hypothesis] = []
        ended: list[Hypothesized] = []
        for row, token, logprob, gain in choices:
            tokens, logprobs, total = before[row].tokens, before[row].logprobs, before[row].total + logprob
            gain += before[row].gain
            if token == self._rules.vocabulary.eot:
                ended.append(Hypothesized(tokens, logprobs, total, attention=seen[row], gain=gain))
                continue
            place = None if terms is None else terms.after((token,), self._place(before[row], terms))
            live.append(Hypothesis((*tokens, token), (*logprobs, logprob), total, row, seen[row], gain, place))
            # The choices come best first; worse ones are dropped, ends of text included, as in openai/whisper.
            if len(live) == width:
                break
        self._live = live
        self._finished += ended[:room]
        if self._draft is None or was_narrow or self._accept.independent or not live:
            return  # what has just been left is not looked for at once
        # Back in the text that was expected: one hypothesis is enough again.
        if self._draft.find(live[0].tokens):
            self._narrow = True
            self._live = live[:1]

    def _choices(self, following: Distribution) -> tuple[int, list[Choice]]:
        """The number of hypotheses that go on, and their tokens: the likeliest where drafted, else the best."""
        first = None
        if self._trials is not None and self._trials.is_granted:
            token, logprob = self._trials.take(following.logprobs()[0])
            self._narrow = self._narrow and self._draft is not None and self._draft.follow(token)
            return 1, [Choice(0, token, logprob)]
        if self._narrow and self._draft is not None:
            likeliest = self._chosen(following, 1)[:1]
            # Where no token is possible, none can leave the draft.
            self._narrow = not likeliest or self._draft.follow(likeliest[0].token)
            if self._narrow:
                return 1, likeliest
            first = likeliest[0]
        # Of independent hypotheses those that have ended are not made up for.
        width = self._accept.rows - len(self._finished) * self._accept.independent
        return width, self._chosen(following, width, first)

    def _chosen(self, following: Distribution, width: int, first: Choice | None = None) -> list[Choice]:
        """The choices of `accept`, without the ends of text that do not count."""
        found = self._accept.choose(following, [hypothesis.score for hypothesis in self._live], width, first)
        return found if self._end is None else [choice for choice in found if not self._is_refused(choice, found)]

    def _is_refused(self, choice: Choice, found: Sequence[Choice]) -> bool:
        """True if `choice` is an end of text that does not count."""
        eot = self._rules.vocabulary.eot
        if self._end is None or choice.token != eot:
            return False
        others = (other.token for other in found if other.row == choice.row and other.token != eot)
        # The choices come best first. Without another one end of text is all that is possible.
        runner_up = next(others, None)
        return runner_up is not None and not self._end.ends(self._live[choice.row].tokens, runner_up)

    def _is_over(self) -> bool:
        if len(self._finished) >= self._accept.enough or not self._live:
            return True
        # Of a beam the guards watch the hypothesis that leads; each sample stands for itself.
        watched = self._live if self._accept.independent else self._live[:1]
        for hypothesis in tuple(watched):
            keep = truncation(self._guards, hypothesis.tokens, hypothesis.seen, hypothesis.logprobs)
            if keep is None:
                continue
            self._finished.append(self._closed(hypothesis, "guard", keep))
            if not self._accept.independent:
                self._live = []
                break
            self._live = [other for other in self._live if other is not hypothesis]
        return not self._live or self._is_full() or self._is_enough()

    def _closed(self, hypothesis: Hypothesis, stop: StopReason, keep: int | None = None) -> Hypothesized:
        """A hypothesis as it stands, without what was added for a term that has not ended."""
        closed = hypothesis.close(stop, keep)
        if self._terms is None or not hypothesis.gain:
            return closed
        return replace(closed, gain=closed.gain - self._terms.owed(self._place(hypothesis, self._terms)))

    def _is_enough(self) -> bool:
        """True if what has ended is enough, though fewer texts have than there are rows; the others go."""
        if self._end is None or not self._finished or not self._end.is_enough(len(self._live[0].tokens)):
            return False
        self._live = []
        return True

    def _is_full(self) -> bool:
        """True if the live hypotheses, which are all of one length, are as long as may be."""
        return bool(self._live) and len(self._live[0].tokens) >= self._prompt.limit


def build_search(
    prompt: Prompt,
    rules: Rules,
    options: DecodeOptions,
    *,
    temperature: float = 0.0,
    draft: Draft | None = None,
    guards: Sequence[Guard] = (),
) -> TokenSearch:
    """The search that `options` ask for at this temperature.

    Above 0 it is sampling, as in openai/whisper; at 0 it is beam search, or greedy search, which has no patience.
    """
    accept: Accept
    if temperature > 0:
        # Seeded anew for each attempt: a text depends on the audio and the seed, not on what was decoded before it.
        rng = np.random.default_rng([options.seed, round(temperature * 1000)])
        accept = Sampling(temperature, options.best_of, rng)
    else:
        accept = Beam(options.beam, options.patience) if options.beam > 1 else GREEDY
    return TokenSearch(prompt, rules, accept, draft=draft, length_penalty=options.length_penalty, guards=guards)
