"""All scenarios, in the order in which they run."""

from campaign.disconnects import DISCONNECTS, JOURNALED, OUTAGES
from campaign.drains import DRAINS
from campaign.faults import CLOCK, CORRUPT, FAULTS
from campaign.fuzz import FUZZ
from campaign.kills import KILLS
from campaign.livekit import LIVEKIT
from campaign.processes import NANO_KILLS, PROCESSES
from campaign.speech import PACES, SPEECH

KINDS = (
    KILLS,
    DRAINS,
    DISCONNECTS,
    JOURNALED,
    OUTAGES,
    FAULTS,
    CORRUPT,
    CLOCK,
    FUZZ,
    LIVEKIT,
    # whole processes, real models: a seed of these may take the time of those that follow
    PROCESSES,
    NANO_KILLS,
    SPEECH,
    PACES,
)
