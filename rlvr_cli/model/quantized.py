"""Numbers in 4 and 8 bits, which bitsandbytes quantizes."""

from types import ModuleType

from rlvr_cli.core.libraries import library


def quantization(option: str) -> ModuleType:
    """Import what quantizes. Raises UserError if bitsandbytes is not installed, and names the
    `option` that needs it."""
    return library("bitsandbytes.functional", option)
