"""The typed configuration: its sections, and how layers of settings make one."""

from rlvr_cli.config.resolution import (
    OF_A_MODEL,
    SETTINGS,
    as_yaml,
    changed_cells,
    flag_layer,
    flags_of,
    resolve,
    set_layer,
    use_of,
)
from rlvr_cli.config.sections import (
    LONGEST_RESPONSE,
    Config,
    DataConfig,
    GuardsConfig,
    OptimConfig,
    RolloutConfig,
)
