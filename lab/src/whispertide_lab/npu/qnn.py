"""Settings of ONNX Runtime's QNN provider (Qualcomm's NPUs), as the names and strings that it takes.

Source: ONNX Runtime documentation, "QNN Execution Provider", configuration options. Nothing here has been run on such
a device by us; a test holds the names that are handed over.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from whispertide.errors import OptionError
from whispertide.options import check_choice

Backend = Literal["htp", "gpu", "cpu"]
Performance = Literal[
    "default",
    "burst",
    "balanced",
    "high_performance",
    "sustained_high_performance",
    "high_power_saver",
    "low_balanced",
    "low_power_saver",
    "power_saver",
]


@dataclass(frozen=True, slots=True)
class QnnOptions:
    """How the QNN provider compiles and runs static graphs.

    backend        "htp" is the NPU; "cpu" is Qualcomm's reference implementation, for checking
    library        the backend's library in place of the one that comes with the provider
    performance    the NPU's clock and power mode
    effort         0 to 3: time spent on compiling, for a better graph
    fp16           compute fp32 graphs in fp16, which is the only float type of most NPUs
    vtcm_mb        on-chip memory per graph in MB; 0 = the provider's choice
    soc_model, htp_arch   what to compile for when that is not this machine, as in the QNN SDK
    contexts       a folder for compiled graphs, found again at the next start; None = compile every time
    strict         refuse a graph that would run on the CPU in part

    Raises `OptionError` for a value that the provider does not know.
    """

    backend: Backend = "htp"
    library: Path | None = None
    performance: Performance = "burst"
    effort: int = 3
    fp16: bool = True
    vtcm_mb: int = 0
    soc_model: str = ""
    htp_arch: str = ""
    contexts: Path | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        check_choice("the QNN backend", self.backend, get_args(Backend))
        check_choice("the QNN performance mode", self.performance, get_args(Performance))
        if not 0 <= self.effort <= 3 or self.vtcm_mb < 0:
            raise OptionError(f"expected effort 0 to 3 and vtcm_mb >= 0; got {self.effort} and {self.vtcm_mb}")

    def provider_options(self) -> dict[str, str]:
        """For `onnxruntime.InferenceSession(provider_options=...)`."""
        options = {"backend_type": self.backend} if self.library is None else {"backend_path": str(self.library)}
        if self.backend == "htp":
            options |= {
                "htp_performance_mode": self.performance,
                "htp_graph_finalization_optimization_mode": str(self.effort),
                "enable_htp_fp16_precision": str(int(self.fp16)),
            }
        # 0 becomes an empty text and is left out, as nothing to say is.
        named = {"soc_model": self.soc_model, "htp_arch": self.htp_arch, "vtcm_mb": str(self.vtcm_mb or "")}
        return options | {name: value for name, value in named.items() if value}

    def entries(self, graph: Path) -> dict[str, str]:
        """For `SessionOptions.add_session_config_entry`, for the session of one graph file."""
        entries = {"session.disable_cpu_ep_fallback": "1"} if self.strict else {}
        if self.contexts is not None:
            entries |= {"ep.context_enable": "1", "ep.context_file_path": str(self.compiled(graph))}
        return entries

    def compiled(self, graph: Path) -> Path:
        """Where the compiled form of a graph file is kept. Raises `OptionError` where there is no folder for them."""
        if self.contexts is None:
            raise OptionError("expected a folder for compiled graphs; got none: set `contexts`")
        return self.contexts / f"{graph.stem}_ctx.onnx"
