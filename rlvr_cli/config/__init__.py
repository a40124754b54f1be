"""The typed configuration: its sections, and how layers of settings make one."""

from rlvr_cli.config.resolution import (
    OF_A_MODEL,
    SETTINGS,
    Given,
    as_yaml,
    changed_cells,
    flag_layer,
    flags_of,
    in_order,
    layer,
    resolve,
    run_layer,
    set_layer,
    setting_at,
    yaml_layer,
)
from rlvr_cli.config.sections import (
    LONGEST_RESPONSE,
    Config,
    DataConfig,
    GuardsConfig,
    OptimConfig,
    RolloutConfig,
)
