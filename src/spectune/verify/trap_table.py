"""The entries of the trap registry. Data only."""

from __future__ import annotations

from spectune.verify.trap_types import Trap

_SG, _VL, _LC = "sglang", "vllm", "llama.cpp"


def _harmless(name: str, engine: str, sign: str, meaning: str) -> Trap:
    return Trap(name, engine, sign, "new-warnings", meaning, "", "seen in logs of sound servers", harmless=True)


TRAPS: tuple[Trap, ...] = (
    # Speculation that is not there, or another than asked.
    Trap(
        "draft-model-dropped", _LC, "", "speculation-live",
        "a draft model without a speculation type is loaded and dropped; the server is healthy, and does not speculate",
        "Give --spec-type draft-simple beside -md.", "observed",
    ),
    Trap(
        "draft-vocabulary", _LC,
        r"target and draft vocabs are not compatible|draft model vocab type must match"
        r"|failed to initialize speculative decoding context",
        "speculation-live", "speculation could not be initialised; the server stays healthy and serves without it",
        "Take a draft model of the target's family.", "observed",
    ),
    Trap(
        "speculation-unsupported", _LC, r"speculative decoding not supported by this context", "speculation-live",
        "this model's memory can't take tokens back, so that speculation is left out; the server stays healthy",
        "Do not ask for speculation with this model.", "the engine's source",
    ),
    Trap(
        "speculation-unasked", _VL, "", "speculation-live",
        "a checkpoint in the speculators format brings its draft along, and speculates without a flag",
        "For a baseline without speculation, serve the target model itself.", "the engine's source",
    ),
    Trap(
        "draft-size-clamped", _LC, r"requested draft size .{0,60}exceeds the trained block size", "speculation-depth",
        "the draft was trained for fewer tokens at a time, and the depth is cut to that",
        "Ask for the depth that the line names.", "the engine's source",
    ),
    Trap(
        "n-max-not-for-ngram", _LC, "", "speculation-depth",
        "spec-draft-n-max has no effect on n-gram drafting, which has settings of its own for the depth",
        "Set spec-ngram-simple-size-m or spec-ngram-mod-n-max.", "the engine's source",
    ),
    Trap(
        "ngram-never-drafts", _LC, "", "drafting-happened",
        "n-gram drafting with size-m below size-n finds matches and never drafts from them",
        "Keep size-m at size-n or above.", "observed",
    ),
    Trap(
        "never-engaged", "", "", "drafting-happened",
        "speculation is configured and drafts nothing: sampled requests, short answers or a size limit bypass it",
        "Compare drafted tokens with output tokens at production sampling.",
        "omlx#3370, vmlx-swift#268, dflash-mlx#20",
    ),
    Trap(
        "steps-and-draft-tokens", _SG, r"speculative_num_draft_tokens is adjusted to speculative_num_steps \+ 1",
        "adjustments-allowed", "with topk 1 draft tokens are always steps + 1; another number is replaced",
        "Ask for steps=k and draft tokens=k+1.", "sglang#3883, #5673",
    ),
    Trap(
        "adaptive-fell-back", _SG, r"speculative_adaptive disabled: .* Falling back to static", "adjustments-allowed",
        "the adaptive depth is off, and the fixed one runs under its name", "Remove the cause that the line names.",
        "sglang#23289",
    ),
    Trap(
        "schedule-fell-back", _VL, r"falling back to static num_speculative_tokens", "adjustments-allowed",
        "the schedule of depths is off, and one depth runs for every batch", "Remove the cause that the line names.",
        "vllm#49548",
    ),
    Trap(
        "same-layer-many-times", _VL, r"run multiple times of forward on same MTP layer", "adjustments-allowed",
        "one MTP layer drafts every position; acceptance falls with each of them", "Compare k=1, 2 and 3 before more.",
        "vllm#36872",
    ),
    Trap(
        "depth-above-heads", _SG, r"MTP depth \d+ exceeds the checkpoint's num_draft_slots=\d+", "adjustments-allowed",
        "later positions are drafted by a head that was trained for another one; acceptance falls there",
        "Compare with the depth that the checkpoint has slots for.", "the engine's source",
    ),
    Trap(
        "draft-tokens-default", _SG,
        r"speculative_num_draft_tokens is (set to \d+ by default|not set; defaulting to \d+)", "adjustments-allowed",
        "the engine chooses the number of draft tokens, another for each method and version",
        "Write out steps, topk and draft tokens together.", "sglang#3883, #5673",
    ),
    Trap(
        "draft-window-ignored", _SG, r"--speculative-draft-window-size has no effect", "adjustments-allowed",
        "the draft attends to everything, whatever window was asked", "Remove speculative-draft-window-size.",
        "the engine's source",
    ),
    Trap(
        "token-map-ignored", _SG, r"Speculative token map specified, but EAGLE3 models already have this",
        "adjustments-allowed", "the draft has its own small vocabulary, and the token map is not read",
        "Remove speculative-token-map.", "the engine's source",
    ),
    Trap(
        "draft-context-stretched", _VL, r"Overriding draft model max_position_embeddings from \d+",
        "adjustments-allowed", "the draft works beyond the length it was trained for, where acceptance dies",
        "Look at the acceptance of long requests on their own, or take a draft with the target's context.",
        "vllm#58080",
    ),
    Trap(
        "spec-v2-variable", _SG, r"SGLANG_ENABLE_SPEC_V2 has been removed", "adjustments-allowed",
        "the variable does nothing any more", "Use disable-overlap-schedule to turn overlap off.",
        "the engine's source", versions="<0.5.23",
    ),
    # Limits.
    Trap(
        "limit-48", _SG, r"Max running requests is reset to \d+ for speculative decoding", "limits-cover-levels",
        "speculation silently limits the server to 48 requests at a time, divided by the DP size",
        "Set max-running-requests explicitly in both arms.", "sglang#34290, #33199",
    ),
    Trap(
        "states-limit-requests", _SG,
        r"max_running_requests (is capped to \d+ by the mamba state cache|was reduced from the requested \d+)",
        "limits-cover-levels",
        "drafts take KV room and recurrent states, more with every step, and fewer requests run at a time",
        "Compare at a depth whose limit covers the level, or raise max-mamba-cache-size.", "the engine's source",
    ),
    Trap(
        "active-requests-reduced", _VL, r"Overriding max_num_active_seqs from \w+ to \d+", "limits-cover-levels",
        "a draft pass needs so many tokens of a step that fewer requests run at a time",
        "Raise max-num-batched-tokens, or lower the depth.", "the engine's source",
    ),
    Trap(
        "context-reduced", _VL, r"can't skip speculation for longer sequences; reducing max_model_len to \d+",
        "requests-fit", "the draft's context is shorter, and the target's is cut to it",
        "Take a draft with the target's context.", "the engine's source",
    ),
    Trap(
        "graphs-below-level", _SG, "", "graph-cover",
        "graphs reach fewer requests than run at a time; above them every step is slow, and the queue stays",
        "Set cuda-graph-max-bs-decode and max-running-requests in both arms.", "sglang#34290, #33483",
    ),
    Trap(
        "graphs-truncated", _VL, r"Truncating max_cudagraph_capture_size|max_cudagraph_capture_size.*truncated_size=",
        "graph-cover", "graphs cover fewer tokens than asked; a step of n requests takes n x (k+1) of them",
        "Raise max-cudagraph-capture-size to cover max-num-seqs x (k+1).", "vllm#54933, #37865",
    ),
    Trap(
        "graphs-piecewise", _VL, r"Overriding cudagraph_mode from \w+ to PIECEWISE", "scheduler-parity",
        "full graphs were replaced by partial ones, which costs more than a schedule of depths gains",
        "Measure the schedule against every fixed depth and against no speculation.", "vllm#49548, #51575",
    ),
    Trap(
        "graphs-mode-changed", _VL, r"CUDAGraphMode\.\w+ is not supported with .{1,200}; setting cudagraph_mode=",
        "scheduler-parity", "the attention kernels can't capture steps that verify drafts, and graphs do less",
        "Set the same cudagraph_mode in both arms, or take another attention-backend.", "the engine's source",
    ),
    Trap(
        "model-runner-changed", _VL, r"Model Runner V2 does not yet support .{1,200}; using the V1 model runner",
        "scheduler-parity", "with this method the older model runner runs, which is slower by itself",
        "Compare with a baseline that has VLLM_USE_V2_MODEL_RUNNER=0 too.", "the engine's source",
    ),
    Trap(
        "async-scheduling-off-unpadded", _VL, r"Async scheduling is not compatible with disable_padded_drafter_batch",
        "scheduler-parity", "unpadded drafts switch asynchronous scheduling off: two things change at once",
        "Remove disable_padded_drafter_batch, or compare with a baseline that has --no-async-scheduling too.",
        "the engine's source",
    ),
    Trap(
        "prefill-budget-cut", _VL, r"max_num_scheduled_tokens is set to \d+ based on the speculative",
        "adjustments-allowed",
        "prompts are computed in smaller pieces than in the baseline, so the first token comes later",
        "Set max-num-batched-tokens in both arms.", "vllm#31998",
    ),
    Trap(
        "async-scheduling-off", _VL, r"Async scheduling not supported with .{1,60}-based speculative decoding",
        "scheduler-parity", "this way of drafting switches asynchronous scheduling off: two things change at once",
        "Compare with a baseline that has --no-async-scheduling too.", "vllm#53520", versions="<0.33",
    ),
    Trap(
        "async-scheduling-off-v1", _VL, r"Async scheduling is disabled because the V1 model runner",
        "scheduler-parity", "this way of drafting switches asynchronous scheduling off: two things change at once",
        "Compare with a baseline that has --no-async-scheduling too.", "vllm#53520", versions=">=0.33",
    ),
    Trap(
        "overlap-off", _SG, r"Non-overlap \(synchronous\) spec v2 is used|Overlap scheduler is disabled",
        "scheduler-parity",
        "scheduling and computing take turns, in one arm only", "Run the baseline without overlap too, or restore it.",
        "sglang#23289",
    ),
    Trap(
        "mixed-chunk-off", _SG, r"Mixed chunked prefill is disabled", "scheduler-parity",
        "prompts no longer share steps with decoding, in one arm only", "Remove enable-mixed-chunk from the service.",
        "sglang#23289",
    ),
    Trap(
        "sampling-refused", _VL, r"min_p and logit_bias parameters won't work with speculative", "no-failed-requests",
        "requests with min_p or logit_bias are refused once speculation is on",
        "Ask what the clients send before promoting.",
        "vllm#42744",
    ),
    Trap(
        "sampling-default-refused", _VL, "", "generation",
        "min_p in the model's generation_config is put into every request, and refused in each under speculation",
        "Start with --generation-config vllm, or take min_p out of it.", "vllm#42744",
    ),
    Trap(
        "kv-room-smaller", "", "", "limits-cover-levels",
        "draft weights and states take KV room: a third less was seen",
        "Compare KV tokens, and users at their context.",
        "sglang#28620, #36452; vllm#51041",
    ),
    # Wrong text.
    Trap(
        "garbage-in-company", "", "", "answers",
        "text breaks only when several requests run, and may poison the prefix cache until a restart",
        "Compare greedy answers at the level that is measured; restart between candidates.",
        "rtx6kpro#63, club-3090#710",
    ),
    Trap(
        "head-broken", "", "", "head-sound",
        "acceptance near zero at the first position is a broken head: wrong weights, vocabulary or hidden states",
        "Do not tune k; check that the draft belongs to the target.", "vllm#36872, #55605",
    ),
    Trap(
        "mtp-weights-missing", _SG, "", "head-sound",
        "nothing checks that a checkpoint has its MTP weights; a random head drafts, and next to nothing is accepted",
        "Look for mtp. in the checkpoint's index.", "the engine's source",
    ),
    Trap(
        "tree-gibberish", _SG, "", "answers", "with topk above 1 text turned to gibberish",
        "Compare with topk 1.", "sglang#11839",
    ),
    Trap(
        "lossy-acceptance", "", "", "answers-sampled",
        "acceptance thresholds below 1 (SGLang) and the method fly (vLLM) keep drafts that the model would not have "
        "drawn",
        "Leave speculative-accept-threshold-single and -acc at 1, and rejection_sample_method at standard.",
        "the engines' source",
    ),
    Trap(
        "numerics", "", "", "answers",
        "greedy text differs by the shape of batches alone; equal bytes can't be demanded",
        "Judge against how far the baseline differs from itself.", "llama.cpp#23302, vllm#7627",
    ),
    Trap(
        "tool-calls-broken", "", "", "answers", "the arguments of tool calls are cut or doubled under speculation",
        "Send requests with tools as production does, and parse what comes.", "vllm#46249",
    ),
    Trap(
        "simulated-acceptance", "", "", "output-valid",
        "acceptance is invented for benchmarking; no user will see these speeds",
        "Remove the simulation (llama.cpp --spec-synth-*, SGLANG_SIMULATE_ACC_LEN, vLLM synthetic rejection).",
        "observed on all three engines",
    ),
    # Numbers that mislead.
    Trap(
        "pool-seen-before", _LC, "", "drafts-not-suspicious",
        "the n-gram pool lives on from request to request: a repeated prompt is drafted from its own old answer",
        "Measure with prompts the server has not seen since its start.", "llama.cpp#10455, #26750",
    ),
    Trap(
        "tree-seen-before", _VL, "", "drafts-not-suspicious",
        "suffix decoding keeps answers of earlier requests: a repeated prompt is drafted from its own old answer",
        "Measure with unseen prompts, or set suffix_decoding_max_cached_requests to 0.", "the engine's source",
    ),
    Trap(
        "loops-flatter", "", "", "measured-soundly",
        "answers that loop are drafted nearly perfectly, and look sound to whoever compares bytes",
        "Use the chat endpoint and the model's own sampling, and let answers end.", "llama.cpp#26750",
    ),
    Trap(
        "pool-too-short", _LC, r"ngram_mod n_match=\d+ is too small", "new-warnings",
        "such short matches draft noise", "Raise spec-ngram-mod-n-match to 16 or more.", "the engine's source",
    ),
    Trap(
        "prompts-replayed", "", "", "prefix-cache-hit",
        "a fixed seed sends the prompts of the cell before again, and they come from the prefix cache",
        "Use new prompts in every cell.", "vllm#54227, #52884",
    ),
    Trap(
        "chunks-counted", "", "", "tokens-unknown",
        "a chunk carries several tokens under speculation; counting chunks gives half the speed",
        "Count tokens from usage.", "sglang#33193, vllm#35471",
    ),
    Trap(
        "client-too-slow", "", "", "load-not-reached", "the client can't keep the load up and measures itself",
        "Spread the client over several processes or another machine.",
        "inference-perf#648, guidellm#470",
    ),
    # Life cycle.
    Trap(
        "orphan-on-the-port", "", "", "listener-is-ours",
        "a server from before still listens and answers in place of the new one", "End it before the next deploy.",
        "vllm#34816, #44751",
    ),
    Trap(
        "orphan-with-memory", "", "", "memory-returned",
        "a killed server's worker keeps the GPU's memory under another name", "Stop the whole process group or cgroup.",
        "vllm#55510, sglang#22779",
    ),
    Trap(
        "hang-after-health", "", "", "sustained-generation", "health stays green while nothing is generated",
        "Send real requests as a health check, and enough of them.",
        "sglang#31645, vllm#40926",
    ),
    Trap(
        "kv-full", _LC, r"failed to find free space in the KV cache", "new-warnings",
        "the KV cache is full; batches are cut and requests may fail", "Raise ctx-size or lower parallel.",
        "the engine's source",
    ),
    Trap(
        "requests-retracted", _SG, r"KV cache pool is full\. Retract requests", "adjustments-allowed",
        "running requests are thrown out and computed again", "Lower the level or the limit on requests.",
        "the engine's source",
    ),
    Trap(
        "no-openmp", _VL, r"Speculative decoding on CPU without Intel OpenMP", "new-warnings",
        "speculation on this CPU is much slower than it could be", "Preload libiomp5.", "observed",
    ),
    # Warnings that change nothing.
    _harmless("no-api-key", _LC, r"no API key is set", "about access, not about speed"),
    _harmless("default-port", _LC, r"default port will be changed", "the port is always given"),
    _harmless("cached-whole", _LC, r"need to evaluate at least 1 token", "a prompt that was cached whole"),
    _harmless("cached-whole-set-back", _LC, r"n_past was set to", "follows from a prompt that was cached whole"),
    _harmless("client-gone", _LC, r"cancel task, id_task", "a client went away"),
    _harmless(
        "context-below-trained", _LC, r"n_ctx_(seq|per_seq) \(\d+\) < n_ctx_train",
        "a smaller context than the model allows is asked",
    ),
    _harmless(
        "synthetic-told", _LC, r"synthetic speculative acceptance is enabled", "reported by the check output-valid"
    ),
    _harmless("development-pages", _VL, r"Development endpoints are enabled", "about access, not about speed"),
    _harmless("own-deprecations", _VL, r"DeprecationWarning|FutureWarning", "about the engine's own code"),
)  # fmt: skip
