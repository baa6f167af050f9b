"""The load comes from the server's own host, over a real ssh, from the command line."""

from __future__ import annotations

import json
import time

import pytest
import yaml

from tests.end_to_end.test_systemd import NAME, Desk, desk  # noqa: F401 - a fixture

pytestmark = [pytest.mark.systemd, pytest.mark.slow, pytest.mark.timeout(400)]

URL = "http://127.0.0.1:30000"
BENCH = ("--concurrency", "1,2", "--seconds", "1.5", "--max-tokens", "24", "--json", "--model", "/srv/qwen")


def ready(desk: Desk) -> None:  # noqa: F811
    desk.box.start(NAME)
    deadline = time.monotonic() + 60
    while desk.box.run("curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"{URL}/health") != "200":
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_load_test_from_the_host(desk: Desk) -> None:  # noqa: F811
    ready(desk)
    done = desk.run("bench", URL, *BENCH, "--measure-from", "host", "--remote", "box", "--api-key", "sk-hidden-17")
    assert done.returncode == 0, done.stderr
    assert "the load comes from box itself" in done.stderr
    assert "a round trip from here takes" in done.stderr
    run = json.loads(done.stdout)
    assert run["url"] == URL
    assert run["client"]["hostname"] == "testhost"
    assert any("box itself" in note for note in run["workload"]["notes"])
    assert [cell["requests"].get("ok", 0) > 0 for cell in run["cells"]] == [True, True]
    assert "sk-hidden-17" not in done.stdout + done.stderr
    left = desk.box.run("ps", "-eo", "args")
    assert "spectune.load.remote" not in left
    assert desk.box.run("sh", "-c", "ls -d /tmp/spectune-load-*; ls /root/.cache/spectune").count("load-") == 1


def test_a_python_of_the_host_that_lacks_it(desk: Desk) -> None:  # noqa: F811
    ready(desk)
    done = desk.run("bench", URL, *BENCH, "--measure-from", "host:/usr/bin/python3", "--remote", "box")
    assert done.returncode == 2, done.stderr
    assert "/usr/bin/python3 on box can't send the load of this spectune" in done.stderr
    assert "No module named 'spectune'" in done.stderr


def test_a_campaign_from_the_host(desk: Desk) -> None:  # noqa: F811
    before = desk.box.files(NAME)
    ready(desk)
    wrote = desk.run("init", "qwen.yaml", "--remote", "box", "--unit", NAME, "--force")
    assert wrote.returncode == 0, wrote.stderr
    desk.campaign()
    file = desk.folder / "qwen.yaml"
    document = yaml.safe_load(file.read_text())
    document["budget"] |= {"trials": 2, "confirm_pairs": 0}
    file.write_text(yaml.safe_dump(document))
    ended = desk.run("run", "qwen.yaml", "--new", "--measure-from", "host", "--json")
    assert ended.returncode in {0, 1}, ended.stderr
    assert "the load comes from box itself, where a connection to the server takes" in ended.stderr
    (page,) = desk.folder.glob("spectune-runs/*.html")
    assert "the load comes from box itself" in page.read_text()
    assert desk.box.files(NAME) == before
    assert "spectune.load.remote" not in desk.box.run("ps", "-eo", "args")
