#!/usr/bin/env python3
"""build_wheel.py BUILD TORCH OUTPUT: packs a build with KVSCOPE_STATIC as a wheel. Called by ./setup --wheel.

The wheel is the package of engine/python, with the program in its folder `bin`. TORCH is the folder of the torch that the
engine was built against; the extra `engine` asks for the same minor version. The platform tag names the newest glibc that
any file needs. The same build gives the same bytes.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
SOURCE = HERE.parent.parent
PYTHON = SOURCE / "engine/python"
LIBRARIES = Path("/usr/lib/x86_64-linux-gnu")
# Debian's packages whose code or fonts are in the wheel, by archive, library or file: their terms go with it.
SHIPPED = """libhdf5-dev libaec-dev zlib1g-dev libutf8proc-dev libcairo2-dev libpixman-1-dev libfontconfig-dev
    libfreetype-dev libexpat1-dev libpng-dev libbrotli-dev libglfw3 libx11-6 libxcb1 libxau6 libxdmcp6 libbsd0 libmd0
    nlohmann-json3-dev libstdc++6 fonts-inter fonts-jetbrains-mono fonts-dejavu-core""".split()
X11 = ["libX11.so.6", "libxcb.so.1", "libXau.so.6", "libXdmcp.so.6", "libbsd.so.0", "libmd.so.0"]
FONTS = {  # those of views/figure/font_files.cpp
    "opentype/inter": ["Inter-Regular.otf", "Inter-SemiBold.otf"],
    "truetype/jetbrains-mono": ["JetBrainsMono-Regular.ttf"],
    "truetype/dejavu": ["DejaVuSans.ttf", "DejaVuSans-Bold.ttf", "DejaVuSansMono.ttf"],
}


def newest_glibc(files):
    """(2, 35): the newest version of glibc among the symbols that the files need."""
    versions = set()
    for file in files:
        symbols = subprocess.run(["objdump", "-T", file], capture_output=True, text=True, check=True).stdout
        versions |= {(int(major), int(minor)) for major, minor in re.findall(r"\(GLIBC_(\d+)\.(\d+)[.\d]*\)", symbols)}
    return max(versions)


def copy_modules(package):
    """Those of engine/python, which `import kvscope` finds."""
    package.mkdir(parents=True, exist_ok=True)
    for file in sorted((PYTHON / "kvscope").iterdir()):
        if file.suffix == ".py" or file.name == "py.typed":
            shutil.copy(file, package)


def metadata(version, torch):
    """The text of METADATA without the description. Requirements and extras are those of engine/python/pyproject.toml; the
    extra `engine` brings the LibTorch that kvscope-engine was built against."""
    project = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]
    lines = [f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {need}" for need in project["dependencies"]]
    for extra, needs in {"engine": [f"torch=={torch}.*"], **project["optional-dependencies"]}.items():
        lines += [f"Provides-Extra: {extra}", *(f'Requires-Dist: {need}; extra == "{extra}"' for need in needs)]
    return (HERE / "METADATA.in").read_text().replace("@VERSION@", version).replace("@REQUIRES@", "\n".join(lines))


def entry_points():
    """Those of the pure wheel, and `kvscope`. In the pure wheel that name would hide the program of another installation."""
    scripts = tomllib.loads((PYTHON / "pyproject.toml").read_text())["project"]["scripts"]
    scripts = {"kvscope": "kvscope.program:main", **scripts}
    return "[console_scripts]\n" + "".join(f"{name} = {where}\n" for name, where in scripts.items())


def copy_files(package):
    copy_modules(package)
    (package / "lib/x11").mkdir(parents=True)
    shutil.copy(LIBRARIES / "libglfw.so.3", package / "lib")
    for name in X11:
        shutil.copy(LIBRARIES / name, package / "lib/x11")
    fonts = package / "share/kvscope/fonts"
    fonts.mkdir(parents=True)
    for folder, names in FONTS.items():
        for name in names:
            shutil.copy(Path("/usr/share/fonts") / folder / name, fonts)
    shutil.copy(HERE / "fonts.conf", fonts)


def write_metadata(build, info, version, torch, platform):
    (info / "licenses").mkdir(parents=True)
    for name in ["LICENSE", "NOTICE"]:
        shutil.copy(SOURCE / name, info / "licenses")
    for package in SHIPPED:
        shutil.copy(f"/usr/share/doc/{package}/copyright", info / "licenses" / package)
    imgui = re.search(r"^KVSCOPE_IMGUI:PATH=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
    shutil.copy(Path(imgui) / "LICENSE.txt", info / "licenses/imgui")
    (info / "METADATA").write_text(metadata(version, torch) + (SOURCE / "README.md").read_text())
    (info / "WHEEL").write_text(f"Wheel-Version: 1.0\nGenerator: kvscope\nRoot-Is-Purelib: false\nTag: py3-none-{platform}\n")
    (info / "entry_points.txt").write_text(entry_points())


def main(build, torch, output):
    torch_version = re.search(r"__version__ = '(\d+\.\d+)", (torch / "version.py").read_text())[1]
    version = re.search(r"project\(kvscope VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text())[1]
    with tempfile.TemporaryDirectory() as stage:
        package, info = Path(stage) / "kvscope", Path(stage) / f"kvscope-{version}.dist-info"
        install = ["cmake", "--install", build, "--component", "program", "--prefix", package, "--strip"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        shutil.rmtree(package / "share/kvscope/samples/gates/smollm2-135m")  # 10 MB, for a model that ./setup fetches
        copy_files(package)
        programs = [file for file in package.rglob("*") if file.is_file() and file.read_bytes()[:4] == b"\x7fELF"]
        major, minor = newest_glibc(programs)
        write_metadata(build, info, version, torch_version, f"manylinux_{major}_{minor}_x86_64")
        committed = subprocess.run(["git", "-C", SOURCE, "log", "-1", "--format=%ct"], capture_output=True, text=True).stdout
        environment = os.environ | {"SOURCE_DATE_EPOCH": committed.strip() or "315532800"}
        command = [sys.executable, "-m", "wheel", "pack", "--dest-dir", output, stage]
        subprocess.run(command, check=True, env=environment)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
