"""The position of decoded audio by its container's time stamps, and the length of a gap before it.

Audio may begin later than the picture, and jump where a recorder paused or packets were lost: subtitles are late or
early by that unless the gap is filled. Only time; knows nothing of files or samples.
"""

from dataclasses import dataclass

# Time stamps are rounded, and encoders pad by some tens of milliseconds: less is no gap.
_SMALLEST_S = 0.1
# A longer jump is a damaged or restarted clock (the stamps of MPEG-TS wrap after 26 hours), not a pause to sit through.
_LARGEST_S = 4 * 3600.0


@dataclass(slots=True)
class Timeline:
    """Positions in time stamps: the recording as a whole begins at `begin_s`, picture included; `at_s` is written so
    far.
    """

    begin_s: float = 0.0
    at_s: float = 0.0

    def advance(self, stamp_s: float | None, length_s: float) -> float:
        """Seconds of silence that belong before a portion of `length_s` with this stamp; None: it has no stamp.

        Audio begins where its first stamp says, to the sample. A clock that goes back, or on by more than four hours,
        was set anew: what follows is counted from there.
        """
        smallest_s = _SMALLEST_S if self.at_s else 0.0
        gap = 0.0
        if stamp_s is not None:
            gap = stamp_s - self.begin_s - self.at_s
            if not -_SMALLEST_S <= gap <= _LARGEST_S:
                self.begin_s += gap
                gap = 0.0
            elif gap < smallest_s:
                gap = 0.0
        self.at_s += gap + length_s
        return gap
