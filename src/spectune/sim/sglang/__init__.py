"""A simulated SGLang 0.5.15: `python -m spectune.sim.sglang --model-path any ...`.

It takes SGLang's flags, prints its log lines, serves its endpoints, and answers at the speed of a profile (see
spectune.sim.model). Environment:

    SPECTUNE_SIM_PROFILE       a packaged profile's name or a path; default hand-run
    SPECTUNE_SIM_LOAD_SECONDS  in place of the profile's load time; health and drain waits shrink with it
    SPECTUNE_SIM_FAULTS        comma-separated name or name=value, see faults.py
    SPECTUNE_SIM_SEED          makes acceptance and noise repeat; default: different at every start
    SPECTUNE_SIM_NOISE         relative sd of a step's time, or sd=,boot=,drift=,outliers=
    SPECTUNE_SIM_SPEED         all times are divided by it
    SPECTUNE_SIM_GPU_FILE      a file with a line "pid bytes" for each process that holds simulated GPU memory
"""
