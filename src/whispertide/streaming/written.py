"""Filters between a policy's verdict and the words of events: everything after `Policy.apply`.

Policies go on with all that they have confirmed, or it would be decoded again; here some of it is left out, put off or
settled. Knows words and how likely they are, no audio and no model.
"""

from collections.abc import Sequence
from dataclasses import replace

from whispertide.punctuation import ends_sentence, may_stand
from whispertide.streaming.policy import AnyPolicy
from whispertide.streaming.repetition import BEFORE, CONTEXT, cut_loops, normalise, without_unlikely
from whispertide.streaming.round import Commit, RoundResult
from whispertide.streaming.turn_state import TurnState, Utterance
from whispertide.types import Word


def written(
    verdict: Commit,
    result: RoundResult[object],
    policy: AnyPolicy,
    state: TurnState,
    utterance: Utterance,
    said: Sequence[Word],
    *,
    certain: bool,
    turns_last: bool,
) -> Commit:
    """The verdict without words that are unlikely where it is noisy, or that may be a click, and without loops in the
    guess; with the mark that was left to what follows. The state notes what that needs to know.

    `said` are the last words of the transcript, `certain` says whether somebody speaks for certain, `turns_last`
    whether a turn may have several utterances.
    """
    # How unlikely made-up words are was found out on English; elsewhere right ones are as unlikely.
    below = policy.drop_below if result.language in (None, "en") else 0.0
    commit, state.chances = drop_unlikely(verdict, state.chances, utterance.words, below)
    commit = _believed(utterance, commit, certain=certain, is_last=result.plan.is_last)
    if commit.closing is not None and not turns_last:  # every utterance is a turn
        commit = replace(commit, confirmed=(*commit.confirmed, commit.closing), closing=None)
    utterance.words += len(verdict.confirmed)
    utterance.spoken, utterance.pending = utterance.spoken or bool(commit.confirmed), bool(commit.hypothesis)
    if commit.confirmed:
        # From here on the turn is in this language, whatever a later window sounds like.
        utterance.language = state.spoken = result.language
        utterance.unfinished = not ends_sentence(commit.confirmed[-1].text)
        if state.closing is not None and may_stand(state.closing.text, commit.confirmed[0].text):
            commit = replace(commit, confirmed=(state.closing, *commit.confirmed))
        state.closing = None
    # Where none of its words were written, its mark closes nothing.
    if commit.closing is not None and utterance.spoken:
        utterance.unfinished, state.closing = True, commit.closing
    if not policy.loop_guard:
        return commit
    before = [*said, *commit.confirmed][-CONTEXT:]
    return replace(commit, hypothesis=tuple(cut_loops(before, commit.hypothesis, normalise, guess=True).words))


def drop_unlikely(
    verdict: Commit, chances: Sequence[float], said: int, below: float
) -> tuple[Commit, tuple[float, ...]]:
    """A policy's verdict without unlikely words, and the probabilities of the last words that it confirmed.

    `chances` are those of the words before, the last `said` of which are of the same utterance.
    """
    rest = verdict.hypothesis if verdict.guess is None else verdict.guess
    kept = without_unlikely(verdict.confirmed, below, before=chances, said=said, after=rest)
    now = (*chances, *(word.probability for word in verdict.confirmed))[-BEFORE:]
    shown = without_unlikely(verdict.hypothesis, below, before=now, said=said + len(verdict.confirmed))
    return replace(verdict, confirmed=kept, hypothesis=shown), now


def _believed(utterance: Utterance, commit: Commit, *, certain: bool, is_last: bool) -> Commit:
    """Words wait until it is `certain` that somebody speaks, and of a click none are written.

    A cry or a tick may sound like a word as well as like a voice.
    """
    words = (*utterance.withheld, *commit.confirmed)
    utterance.withheld = () if certain or is_last else words
    if certain:
        return replace(commit, confirmed=words)
    return replace(commit, confirmed=(), closing=None, hypothesis=() if is_last else (*words, *commit.hypothesis))
