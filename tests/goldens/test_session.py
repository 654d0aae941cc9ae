"""A session on one small home: what every command prints, and what every call answers."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from starlette.testclient import TestClient

from peewit.service.api.app import create_app
from peewit.service.settings import Settings
from tests.goldens.recording import compare, masked
from tests.service.cli.conftest import Peewit

_RINGS: Final = 12
_SIZE: Final = 10

_COMMANDS: Final = """
graph list
graph create g --deletions exact --max-edges 50000
graph create g
graph create Bad/Name
graph create w --window 1000s --time-unit s --column time=at --column weight=amount --max-edges 9999
graph list
graph show g
graph show missing
graph set g --max-edges 60000
graph set g --max-edges nothing
source add g edges.csv
source add g missing.csv
source list g
source remove g missing.csv
ingest g edges.csv --dry-run
ingest g
ingest g
ingest g edges.csv
ingest w timed.csv
ingest g broken.csv
ingest g broken.csv --skip-bad-rows 5
graph show g
graph show w --json
source list g --json
labels put g labels.csv
labels put g labels.csv --label truth=second
labels put g broken_labels.csv
labels put g missing.csv
labels list g
labels columns g
labels remove g r0-4 nobody
labels agreement g
labels disagreements g
labels decide g r0-4 ring
labels rename-annotator g nobody somebody
labels list g --label ring -n 1
labels export g -o labels_out.csv
labels export g a.csv -o b.csv
features g features.csv
features g broken.csv
ingest g
estimate g
solve g --model no-such-model
solve g --set no_such=1
solve g --model hfs --set target=real
solve g --set sets=auto --set probabilities=true --set cross_validate=5
solve g --details
solve g --json
solve g --model stable-hfs --label-column second
solve g --model hfs --set sets=auto --set probabilities=true --set cross_validate=5
solve g --model linear-svm
jobs list
jobs show nothing
predictions g --top 4
predictions g --model linear-svm --sort margin --top 2
predictions g -o predictions.unknown
predict g points.csv
evaluate g truth.csv
evaluate g truth.csv --json
evaluate g truth.csv --model hfs --positive ring --cost-fn 3
evaluate g missing.csv
abstain g --max-error .2
abstain g --max-error 2
sets g --coverage .9
sets g --model hfs --coverage .9
predictions g --model hfs --coverage .9 --top 1
threshold g --positive ring --min-precision .9
threshold g --model hfs --positive ring --cost-fn 3
threshold g --positive nothing --min-precision .9
labels doubtful g
why g r0-3
why g nobody
suggest g -k 3
labelstudio tasks g -o tasks.json
tune g --model stable-hfs
certify g
map g
delete g r1-1 r1-2
delete w r1-1 r1-2
expire w --before 1970-01-01T00:05:00Z
expire g --before 1970-01-01T00:05:00Z
graph show w
repair g
erase g --node r11-1 --wait
ingest g
predictions g --top 2
retract g edges.csv
graph show g
graph export g -o snapshot.parquet
graph filter-features g -o filtered.parquet
graph knn g
key create reader --scope read
key revoke nothing
backup copy
restore copy
graph delete w
graph delete w --yes
graph delete w --yes
"""

_CALLS: Final = """
GET /v1/graphs
GET /v1/graphs/g
GET /v1/graphs/missing
GET /v1/graphs/g?no_such=1
GET /v1/graphs/g/no-such-thing
GET /v1/graphs/g/labels
GET /v1/graphs/g/labels:columns
GET /v1/graphs/g/labels:agreement
GET /v1/graphs/g/labels:disagreements
GET /v1/graphs/g/opinions
GET /v1/graphs/g/second-opinions
GET /v1/graphs/g/sources
GET /v1/graphs/g/files
GET /v1/graphs/g/snapshots/2/edges
GET /v1/graphs/g/snapshots
GET /v1/graphs/g/features
GET /v1/graphs/g/features/filtered
GET /v1/graphs/g/horizon
GET /v1/graphs/g/repairs
GET /v1/graphs/g/map
GET /v1/graphs/g/predictions?format=csv
GET /v1/graphs/g/predictions/rows
GET /v1/graphs/g/predictions/node?id=r0-3
GET /v1/graphs/g/predictions/node?id=nobody
GET /v1/graphs/g/predictions/node/reasons?id=r0-3
GET /v1/graphs/g/predictions/sets?coverage=.9
GET /v1/graphs/g/predictions/abstention?max_error=.2
GET /v1/graphs/g/predictions/threshold?positive=ring&min_precision=.9
GET /v1/graphs/g/predictions/doubtful-labels
GET /v1/graphs/g/suggestions?k=3
GET /v1/graphs/g/erasures
GET /v1/jobs?graph=g&limit=1
GET /v1/jobs/nothing
POST /v1/graphs {"name": "Bad/Name"}
POST /v1/graphs {"name": "h", "max_edges": -1}
POST /v1/graphs {"name": "h", "no_such": 1}
PUT /v1/graphs/g/labels {"labels": [{"node": "r1-1", "label": "ring"}]}
PUT /v1/graphs/g/labels {"labels": [{"node": "nobody", "label": "ring"}]}
POST /v1/graphs/g/jobs {"model": "no-such-model"}
POST /v1/graphs/g/jobs:estimate {"model": "stable-hfs"}
POST /v1/graphs/g/predictions:lookup {"nodes": ["r0-3", "nobody"]}
POST /v1/graphs/g/predictions:evaluate {"labels": [{"node": "r0-3", "label": "ring"}]}
POST /v1/graphs/g/horizon {"before": "1970-01-01T00:05:00Z"}
DELETE /v1/graphs/g/reservations {"nodes": ["r0-3"], "annotator": "ann"}
POST /v1/graphs/g/erasures {"nodes": []}
DELETE /v1/graphs/g/labels {"node": ["r1-1"]}
DELETE /v1/graphs/missing
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory that commands are typed in, with their files."""
    directory = tmp_path / "here"
    directory.mkdir()
    monkeypatch.chdir(directory)
    monkeypatch.setenv("COLUMNS", "100")
    names = [f"r{ring}-{place}" for ring in range(_RINGS) for place in range(_SIZE)]
    rows = [
        (names[_SIZE * ring + place], names[_SIZE * ring + (place + step) % _SIZE])
        for ring in range(_RINGS)
        for place in range(_SIZE)
        for step in (1, 2, 3)
    ]
    rows += [(names[_SIZE * ring], names[_SIZE * ((ring + 1) % _RINGS)]) for ring in range(_RINGS)]
    classes = {name: "ring" if int(name[1:].split("-")[0]) % 3 == 0 else "other" for name in names}
    labeled = [name for name in names if name.endswith(("-4", "-5", "-6", "-7"))]
    _write("edges.csv", "src,dst", (f"{u},{v}" for u, v in rows))
    _write("gone.csv", "src,dst", ["r1-1,r1-2"])
    _write("timed.csv", "src,dst,at,amount", (f"{u},{v},{n},2" for n, (u, v) in enumerate(rows)))
    _write("broken.csv", "src,dst,weight", ["a,b,1", "b,c,-1", "c,d,x"])
    both = (f"{name},{classes[name]},{name[-1]}" for name in labeled)
    _write("labels.csv", "node,label,truth", both)
    _write("broken_labels.csv", "node,label", ["r0-1,ring", "nobody,ring"])
    _write("truth.csv", "node,label", (f"{name},{own}" for name, own in classes.items()))
    features = (f"{name},{int(classes[name] == 'ring')},{len(name)}" for name in names)
    _write("features.csv", "node,x,y", features)
    _write("points.csv", "point,x,y", ["p,1,4", "q,0,4"])
    return directory


def _write(name: str, head: str, rows: Iterator[str] | list[str]) -> None:
    Path(name).write_text("\n".join([head, *rows, ""]), encoding="utf-8")


@pytest.mark.usefixtures("processes")
def test_what_commands_and_calls_say_is_what_was_recorded(
    here: Path, home: Path, peewit: Peewit
) -> None:
    names = {str(here): "HERE", str(home): "HOME", str(here.parent): "TMP"}
    said = []
    for line in _COMMANDS.strip().splitlines():
        done = peewit(*shlex.split(line))
        said.append(f"$ peewit {line}\n{done.out}{done.err}[{done.exit_code}]\n")
    compare("commands.txt", masked("\n".join(said), names))
    said = []
    secret = peewit("key", "create", "calls", "--scope", "admin").out.splitlines()[0]
    sent = {"Authorization": f"Bearer {secret}"}
    app = create_app(Settings(home=home))
    with TestClient(app, base_url="http://127.0.0.1", headers=sent) as client:
        for line in _CALLS.strip().splitlines():
            method, path, *body = line.split(" ", 2)
            content = json.loads(body[0]) if body else None
            answer = client.request(method, path, json=content)
            said.append(f"> {line}\n{answer.status_code} {_text(answer)}\n")
    compare("calls.txt", masked("\n".join(said), names))


def _text(answer: Any) -> str:
    if "json" in answer.headers.get("content-type", ""):
        return json.dumps(answer.json(), indent=1, sort_keys=True, ensure_ascii=False)
    return str(answer.text)
