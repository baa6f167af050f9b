"""Every check, in the order of asking: what a deployment must show before and after it is measured."""

from __future__ import annotations

from spectune.domain.asked import Asked
from spectune.verify import (
    aftermath,
    announced,
    answers,
    company,
    drafting,
    endurance,
    identity,
    parity,
    sampling,
    scores,
    settings,
    soundness,
    traps,
)
from spectune.verify.check import Check, Stage


def _speculates(asked: Asked) -> bool:
    return asked.speculates


def _has_head(asked: Asked) -> bool:
    return asked.speculates and asked.candidate.speculation.method not in drafting.FROM_TEXT


def _pools(asked: Asked) -> bool:
    return asked.candidate.speculation.method in drafting.POOLED


def _named(doubts: frozenset[str]) -> str:
    return " or ".join(sorted(doubts))


CHECKS: tuple[Check, ...] = (
    Check(
        name="listener-is-ours",
        stage=Stage.START,
        asks="Does the process that we started listen on the port?",
        why="An old or foreign server on the port would be measured in place of the candidate.",
        violation="another process, or nothing, listens",
        advice="Find out what holds the port.",
        look=identity.listener,
    ),
    Check(
        name="process-alive",
        stage=Stage.START,
        asks="Does the server process run?",
        why="A dead server has no speed.",
        violation="the process has ended",
        advice="Read the end of its log.",
        look=identity.alive,
    ),
    Check(
        name="started-after-deploy",
        stage=Stage.START,
        asks="Did the process start with this deploy?",
        why="A process from before still runs the settings from before.",
        violation=f"the process is more than {identity.START_SLACK_S:g} s older than the deploy",
        advice="Stop the old process; make sure that a deploy really restarts the service.",
        look=identity.started,
    ),
    Check(
        name="model-served",
        stage=Stage.START,
        asks="Does the server name the asked model, by id and by file?",
        why="Speeds of different models do not compare.",
        violation="another model id in /v1/models, or another model file",
        advice="Compare the model path on the command line with what the server loaded.",
        look=identity.model,
    ),
    Check(
        name="speculation-live",
        stage=Stage.START,
        asks="Is speculation initialised exactly when it is asked?",
        why="Engines drop speculation at start and stay healthy; the trial would measure something else.",
        violation="speculation is asked and off, or not asked and on",
        advice="Look in the log for why speculation was dropped: draft model, vocabulary, method not given.",
        look=settings.speculation_live,
    ),
    Check(
        name="speculation-method",
        stage=Stage.START,
        asks="Is the asked drafting method the live one?",
        why="Engines fall back to other methods without a word.",
        violation="the server reports another method",
        advice="Check that the engine supports this method for this model.",
        look=settings.speculation_method,
    ),
    Check(
        name="speculation-depth",
        stage=Stage.START,
        asks="Is the effective depth k the asked one?",
        why="Engines clamp the depth, and they count it in different ways (k or k+1).",
        violation="the server reports another depth, or counts acceptance at more than k positions",
        advice="Ask for a depth that the head was trained for; see the log for what it was changed to.",
        look=settings.speculation_depth,
        applies=_speculates,
    ),
    Check(
        name="speculation-topk",
        stage=Stage.START,
        asks="Does the server draft as many branches per position as asked?",
        why="A tree that is silently a chain, or a chain that is a tree, has another cost and another acceptance.",
        violation="the server reports another number of branches",
        advice="Set topk and draft tokens together; see the log for what the engine made of them.",
        look=settings.speculation_topk,
        applies=_has_head,
    ),
    Check(
        name="settings-effective",
        stage=Stage.START,
        asks="Is every setting that the candidate changes in effect?",
        why="A setting that is silently changed or ignored makes the comparison one of something else.",
        violation="a setting reads back with another value, and no named translation allows it",
        advice="Ask for the value that the engine accepts, or drop the setting from the search.",
        look=settings.settings_effective,
    ),
    Check(
        name="limits-cover-levels",
        stage=Stage.START,
        asks="Do request slots and KV room cover the largest level?",
        why="Above the limit requests queue; a candidate must not make users wait whom the service serves today.",
        violation="fewer requests at a time than users, where the service as it is has enough",
        advice="Raise the limit in the service's settings, set min_running_requests, or measure smaller levels.",
        look=settings.limits,
        blocks=False,
    ),
    Check(
        name="graph-cover",
        stage=Stage.START,
        asks="Do captured CUDA graphs cover the largest level?",
        why="A decode step that no graph covers is launched kernel by kernel, which can cost more than speculation "
        "gains.",
        violation="graphs cover fewer requests than run at a time, and fewer than the baseline's do",
        advice="Set the largest captured batch to cover the level (SGLang: cuda-graph-max-bs-decode; vLLM: "
        "max-cudagraph-capture-size, which counts k+1 tokens a request).",
        look=parity.graph_cover,
        blocks=False,
        applies=parity.captures_graphs,
    ),
    Check(
        name="scheduler-parity",
        stage=Stage.START,
        asks="Does everything run as in the baseline that the candidate does not change?",
        why="A comparison in which scheduling, graphs, caches or kernels changed too says nothing about speculation.",
        violation="a setting differs from the baseline's, nobody asked for it, and neither the method nor a word of "
        "the engine explains it",
        advice="Set the named setting in the service's own settings, so that every candidate has it alike.",
        look=parity.scheduler_parity,
        blocks=False,
        applies=parity.differs,
    ),
    Check(
        name="requests-fit",
        stage=Stage.START,
        asks="Does the longest request fit?",
        why="Requests beyond the context fail, and what is left looks fast.",
        violation="less context for a request than the longest one needs",
        advice="Raise the context in the service's settings, or cap the workload's answers (max_tokens).",
        look=settings.fits,
    ),
    Check(
        name="adjustments-allowed",
        stage=Stage.START,
        asks="Did the server change settings by itself, and is it still the candidate?",
        why="Engines replace settings that they don't like and go on; the numbers then belong to something else.",
        violation="an adjustment by which something else runs than was asked",
        advice="Ask for what the engine can do; the finding says what it did instead.",
        look=settings.adjustments,
    ),
    Check(
        name="output-valid",
        stage=Stage.START,
        asks="Is the output real?",
        why="Simulated acceptance and dummy weights give speeds that no user will see.",
        violation="the server says that its output is not valid; the trial is measured, and marked simulated",
        advice="Use real weights and real acceptance for anything that is to be promoted.",
        look=announced.output_valid,
        blocks=False,
    ),
    Check(
        name="new-warnings",
        stage=Stage.START,
        asks="Does the log warn of anything that the baseline's does not?",
        why="A warning often is the only trace of a setting that was changed.",
        violation="never: a warning of a new kind makes it unknown",
        advice="Read the warnings; what is harmless can be added to the catalogue.",
        look=announced.new_warnings,
        blocks=False,
    ),
    Check(
        name="generation",
        stage=Stage.ANSWERS,
        asks="Does the server really answer?",
        why="A health page can be green on a server that hangs at the first request.",
        violation="a probe fails, or no probe is answered with text",
        advice="Read the server's log at the time of the probe.",
        look=answers.generates,
    ),
    Check(
        name="answers",
        stage=Stage.ANSWERS,
        asks="Are the greedy answers the baseline's, up to what the baseline differs from itself?",
        why="Speculation must not change the text; a server that writes garbage can be very fast.",
        violation="answers fail, are empty, garbled, loop or are cut short where the baseline's are not, "
        "or differ from the start",
        advice="Compare the answers; try another depth, another batch size or a newer engine.",
        look=answers.answers_agree,
    ),
    Check(
        name="answers-in-company",
        stage=Stage.ANSWERS,
        asks="Does the server answer in company as it does alone?",
        why="Some faults show in batches only. Where the service as it is has one, comparing with it tells nothing.",
        violation="answers to the same prompts differ from the start when others are served as well",
        advice="Read the answers of one user and of several; try without captured graphs, with another attention "
        "backend, or a newer engine.",
        look=company.answers_alike,
    ),
    Check(
        name="answers-sampled",
        stage=Stage.ANSWERS,
        asks="Under the workload's sampling, are first words distributed as the baseline's?",
        why="Greedy answers are right even where the temperature is ignored, and a server that always takes the "
        "likeliest token has the more drafts accepted.",
        violation=f"the same prompts with other seeds begin in other proportions than the baseline's (error "
        f"{sampling.SURE:g}; unknown from {sampling.DOUBTFUL:g})",
        advice="Compare sampled answers by hand at the same temperature; look for a sampler that the engine replaces "
        "or leaves out under speculation.",
        look=sampling.sampled_alike,
        applies=sampling.wanted_of,
    ),
    Check(
        name="task-score",
        stage=Stage.ANSWERS,
        asks="Are tasks with a right answer solved as often as by the baseline?",
        why="Answers may differ and still be as good; this is whether they are.",
        violation=f"more tasks are lost than gained (exact sign test over the tasks, error {scores.SURE:g}; unknown "
        f"from {scores.DOUBTFUL:g})",
        advice="Read the answers that became wrong; do not promote.",
        look=scores.tasks_kept,
        applies=scores.wanted_of,
    ),
    Check(
        name="drafting-happened",
        stage=Stage.LOAD,
        asks="Were tokens drafted under load, exactly when asked?",
        why="Speculation that never engages measures the baseline under another name.",
        violation="nothing drafted in any cell (with a draft model: in some cell), or drafts that nobody asked for",
        advice="Check sampling parameters and prompt lengths against what the method needs before it drafts.",
        look=drafting.happened,
    ),
    Check(
        name="depth-kept",
        stage=Stage.LOAD,
        asks="Do drafts hold at most k tokens?",
        why="More tokens a draft than asked prove that another depth is in effect.",
        violation="the mean length of a draft is above k",
        advice="Compare the depth on the command line with the engine's own way of counting it.",
        look=drafting.depth_kept,
        applies=_speculates,
    ),
    Check(
        name="head-sound",
        stage=Stage.LOAD,
        asks="Does the draft model agree with the target at the first position?",
        why="Below that it is not weak but broken: wrong weights, wrong vocabulary, wrong hidden states.",
        violation=f"under {drafting.SOUND_FIRST:.0%} accepted at the first position over at least "
        f"{drafting.ENOUGH_DRAFTS} drafts of a cell (exact binomial test, 1 in {1 / drafting.SURE:.0f})",
        advice="Do not tune the depth; check that the draft model belongs to this target.",
        look=drafting.head_sound,
        applies=_has_head,
    ),
    Check(
        name="drafts-not-suspicious",
        stage=Stage.LOAD,
        asks="Do drafts come from unseen text?",
        why="A pool that has seen the prompt before drafts the old answer; no user gets that speed.",
        violation=f"never: repeated prompts, or more than {drafting.SUSPICIOUS_RATE:.1%} accepted over "
        f"{drafting.SUSPICIOUS_DRAFTS} drafts, make it unknown",
        advice="Measure with prompts that the server has not seen since its start.",
        look=drafting.not_suspicious,
        applies=_pools,
    ),
    Check(
        name="server-survived",
        stage=Stage.LOAD,
        asks="Did the server live through the load, without a restart?",
        why="A crash after the measuring is a crash in production.",
        violation="the process has ended, or its counters fell back",
        advice="Read the end of its log.",
        look=endurance.survived,
    ),
    Check(
        name="sustained-generation",
        stage=Stage.LOAD,
        asks="Did answers keep coming until the end?",
        why="A server can be healthy and still hang after a hundred requests.",
        violation=f"none of the last {endurance.HANGS} or more requests was answered in time",
        advice="Read the server's log at the time of the last answer; do not promote, and restart what hangs.",
        look=endurance.sustained,
    ),
    Check(
        name="measured-soundly",
        stage=Stage.LOAD,
        asks="Was it this load, on unseen prompts and text as users get it, with nobody else on the server?",
        why="Cached prompts, others' requests, a load that was never reached, and text that is easy to draft make a "
        "candidate look faster than it is.",
        violation=f"never: a doubt makes it unknown, in any cell {_named(soundness.OTHER_LOAD)}; in more than half of "
        f"them {_named(soundness.TOO_LITTLE)}, and where drafting differs from the baseline's "
        f"{_named(soundness.EASY_TEXT)}",
        advice="Follow the doubt's own advice and measure again.",
        look=soundness.measured_soundly,
        blocks=False,
    ),
    Check(
        name="no-failed-requests",
        stage=Stage.LOAD,
        asks="Were the requests served?",
        why="Requests that fail early make the rest look fast.",
        violation=f"more than {endurance.MOST_FAILED:.0%} of the requests failed",
        advice="Look at the failed requests and at the server's log; measure smaller levels if it is overloaded.",
        look=endurance.no_failures,
    ),
    Check(
        name="memory-returned",
        stage=Stage.STOP,
        asks="Is the GPU's memory free again?",
        why="Memory that a stopped server keeps is missing to every candidate after it.",
        violation=f"over {aftermath.SLACK_BYTES / 2**20:.0f} MiB more in use than before the start",
        advice="Find the process that holds it (nvidia-smi) and end it; workers outlive a server that was killed.",
        look=aftermath.memory_back,
        blocks=False,
    ),
)

_TITLES = {
    Stage.START: "Once the server is ready",
    Stage.ANSWERS: "Once it has answered the probe prompts",
    Stage.LOAD: "After measuring",
    Stage.STOP: "After stopping",
}


def as_markdown() -> str:
    """The page on all checks, for docs."""
    lines = [
        "# Checks",
        "",
        "What a deployment must prove. Every check ends ok, violated or unknown; not found is unknown, never ok.",
        "Where *blocks* says yes, a violation makes the trial INVALID. Everything else that is not ok is shown, lets",
        "the trial be measured and compared, and keeps it from being promoted.",
        "",
        "This page is made from the code: `python -m spectune.verify > docs/checks.md`.",
    ]
    for stage, title in _TITLES.items():
        lines += [
            "",
            f"## {title}",
            "",
            "| check | asks | why | violated by | blocks | advice |",
            "| - | - | - | - | - | - |",
        ]
        lines += [
            f"| `{c.name}` | {c.asks} | {c.why} | {c.violation} | {'yes' if c.blocks else 'no'} | {c.advice} |"
            for c in CHECKS
            if c.stage is stage
        ]
    return "\n".join([*lines, "", *traps.as_markdown()]) + "\n"
