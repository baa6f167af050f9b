from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectune.domain.knobs import KnobValue
from spectune.domain.redaction import is_secret, redact, redact_settings, redact_text

HF = "hf_" + "aB3" * 10

HIDDEN_ARGV = [
    (["--api-key", "s3cret"], ["--api-key", "***"]),
    (["--api-key=s3cret"], ["--api-key=***"]),
    (["--api-key", "one", "two", "three", "--port", "80"], ["--api-key", "***", "***", "***", "--port", "80"]),
    (["--api-key", "-dash", "--port", "80"], ["--api-key", "***", "--port", "80"]),
    (["--api-key", "one", "-c", "4096"], ["--api-key", "***", "-c", "4096"]),
    (["--admin-api-key", "k", "model"], ["--admin-api-key", "***", "model"]),
    (["--apiKey", "k"], ["--apiKey", "***"]),
    (["--hf-token", "k", "--metrics"], ["--hf-token", "***", "--metrics"]),
    (["--hf-token", "--metrics"], ["--hf-token", "--metrics"]),
    (["-hft", "k"], ["-hft", "***"]),
    (["--token", "k"], ["--token", "***"]),
    (["--ssl-keyfile-password", "k"], ["--ssl-keyfile-password", "***"]),
    (["--password=a=b=c"], ["--password=***"]),
    (["--client_secret", "k"], ["--client_secret", "***"]),
    (["env", "HF_TOKEN=k", "A=1", "vllm"], ["env", "HF_TOKEN=***", "A=1", "vllm"]),
    (
        ["docker", "run", "-e", "HF_TOKEN=k", "--env=MY_KEY=k"],
        ["docker", "run", "-e", "HF_TOKEN=***", "--env=MY_KEY=***"],
    ),
    (["-H", "Authorization: Bearer abc"], ["-H", "Authorization: ***"]),
    (["-H", "X-Api-Key: abc"], ["-H", "X-Api-Key: ***"]),
    (["--header=Authorization: Basic dTpw"], ["--header=Authorization: ***"]),
    (["--proxy", "http://me:pw@proxy:3128/x"], ["--proxy", "http://me:***@proxy:3128/x"]),
    (["--proxy=http://me:p@w@proxy"], ["--proxy=http://me:***@proxy"]),
    (["redis://:pw@cache:6379/0"], ["redis://:***@cache:6379/0"]),
    (["git+https://tok123@git.example/x"], ["git+https://***@git.example/x"]),
    (["https://h/v1?model=m&api_key=k&n=2#top"], ["https://h/v1?model=m&api_key=***&n=2#top"]),
    (['{"depth": 3, "hf_token": "k", "name": "n"}'], ['{"depth": 3, "hf_token": "***", "name": "n"}']),
    (
        ["sh", "-c", "exec env HF_TOKEN=k vllm --api-key 'a b' -x"],
        ["sh", "-c", "exec env HF_TOKEN=*** vllm --api-key *** -x"],
    ),
    (["sh", "-c", "HF_TOKEN=k vllm"], ["sh", "-c", "HF_TOKEN=***"]),
    (["--note", f"use {HF}"], ["--note", "use ***"]),
    (["--model", f"m?{HF}"], ["--model", "m?***"]),
]


@pytest.mark.parametrize(("argv", "shown"), HIDDEN_ARGV)
def test_hides_secrets_of_a_command_line(argv: list[str], shown: list[str]) -> None:
    assert list(redact(argv, {})[0]) == shown


LEFT_ALONE = [
    ["--max-tokens", "5"],
    ["--max-tokens=5"],
    ["-n", "128", "--spec-draft-n-max", "3", "--spec-type", "draft-simple"],
    ["--spec-ngram-simple-size-n", "4", "--speculative-num-draft-tokens", "4"],
    ["--tokenizer", "/models/a/tokenizer.json", "--tokenizer-mode=auto", "--skip-tokenizer-init"],
    ["--tokenizer-path", "key/token"],
    ["--api-key-file", "/etc/keys", "--ssl-key-file", "/etc/tls/key.pem", "--ssl-keyfile", "k.pem"],
    ["--override-kv", "tokenizer.ggml.add_bos_token=bool:false"],
    ["--eos-token", "</s>", "--pad-token=0", "--reasoning-end-token", "</think>"],
    ["--cache-type-k", "q8_0", "--cache-type-v", "q8_0", "--keep", "-1"],
    ["-m", "/models/sk-learn/monkey-token.gguf", "--alias", "org/keyboard:Q4_K_M"],
    ["--host", "http://127.0.0.1:8080", "ssh://root@gpu1", "me@host:/path"],
    ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 4, "model": "key"}'],
    ["--served-model-name", "token", "--api-key"],
    ["--api-key", "", "--port", "1"],
    ["--chat-template", "{{ bos_token }}{% for m in messages %}bearer of news{% endfor %}"],
    ["https://h/v1?max_tokens=5&model=key"],
    ["", "-", "--", "---", "=", "--=x", "a=b=c"],
]


@pytest.mark.parametrize("argv", LEFT_ALONE)
def test_leaves_the_rest_of_a_command_line_alone(argv: list[str]) -> None:
    assert list(redact(argv, {})[0]) == argv


SECRET_NAMES = [
    "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN",
    "OPENAI_API_KEY",
    "VLLM_API_KEY",
    "LLAMA_API_KEY",
    "MY_KEY",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_ACCESS_KEY_ID",
    "DB_PASSWORD",
    "DB_PASS",
    "DB_PWD",
    "CLIENT_SECRET",
    "GITHUB_TOKEN",
    "API_TOKENS",
    "PGPASSWORD",
    "KEY_PASSPHRASE",
    "Authorization",
    "Proxy-Authorization",
    "x-api-key",
    "api_key",
    "apikey",
    "accessToken",
]
PLAIN_NAMES = [
    "TOKENIZERS_PARALLELISM",
    "PWD",
    "OLDPWD",
    "PATH",
    "HOME",
    "MAX_TOKENS",
    "HF_TOKEN_PATH",
    "HF_HOME",
    "SSH_AUTH_SOCK",
    "KEYBOARD",
    "LLAMA_ARG_N_PREDICT",
    "LLAMA_ARG_API_KEY_FILE",
    "CUDA_VISIBLE_DEVICES",
    "eos_token",
    "n_tokens",
    "cache-key",
    "public-key",
    "monkey",
    "keep",
    "tokenizer",
    "prompt_tokens",
    "spec-draft-n-max",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_knows_names_of_secrets(name: str) -> None:
    assert is_secret(name)
    assert redact([], {name: "value", "A": "b"})[1] == {name: "***", "A": "b"}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_knows_names_of_other_things(name: str) -> None:
    assert not is_secret(name)
    assert redact([], {name: "/some/value"})[1] == {name: "/some/value"}


def test_looks_into_values_of_other_variables() -> None:
    env = {"HTTPS_PROXY": "http://u:p@proxy:1", "EXTRA": "--api-key k --port 1", "HF_TOKEN": ""}
    assert redact([], env)[1] == {
        "HTTPS_PROXY": "http://u:***@proxy:1",
        "EXTRA": "--api-key *** --port 1",
        "HF_TOKEN": "",
    }


def test_settings_keep_their_types() -> None:
    settings: dict[str, KnobValue] = {
        "api-key": "k",
        "hf-token": 12,
        "token": True,
        "threads": 4,
        "proxy": "http://u:p@h",
        "slots": True,
    }
    assert redact_settings(settings) == {
        "api-key": "***",
        "hf-token": "***",
        "token": True,
        "threads": 4,
        "proxy": "http://u:***@h",
        "slots": True,
    }


def test_free_text() -> None:
    line = f"GET http://u:p@h/x Bearer abc123def {HF}; eos_token = 2, draft acceptance rate = 0.5, 17 tokens"
    assert redact_text(line) == (
        "GET http://u:***@h/x Bearer *** ***; eos_token = 2, draft acceptance rate = 0.5, 17 tokens"
    )


ARGUMENTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(["--api-key", "--token=x", "http://a:b@c", "HF_TOKEN=q", "--port", "-k", "Bearer abcdef12"]),
)


@given(st.lists(ARGUMENTS, max_size=6), st.dictionaries(st.sampled_from(SECRET_NAMES + PLAIN_NAMES), ARGUMENTS))
def test_hiding_twice_hides_no_more(argv: list[str], env: dict[str, str]) -> None:
    once = redact(argv, env)
    assert redact(*once) == once
    assert len(once[0]) == len(argv)


@given(st.sampled_from(["--api-key", "--hf-token", "--password"]), st.text(alphabet="abcXYZ019", min_size=12))
def test_a_secret_is_nowhere(flag: str, secret: str) -> None:
    argv = ["vllm", flag, secret, f"{flag}={secret}", f"http://u:{secret}@h/", "-e", f"HF_TOKEN={secret}"]
    shown = redact(argv, {"HF_TOKEN": secret, "CMD": f"vllm {flag} {secret}"})
    assert secret not in repr(shown)
