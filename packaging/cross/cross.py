"""Wheels for other machines, from this one: zig is the compiler, QEMU the machine.

``cross.py compile``: the kernels, compiled for other platforms, a warning being an error.
``cross.py aarch64 TEST...``: a wheel for Linux on aarch64, then tests under QEMU with Debian's
Python, whose packages are unpacked and not installed: it takes no root.
``cross.py manylinux PYTHON...``: a wheel of each interpreter for glibc 2.28, tried by the doctor.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import numpy as np
import ziglang

ROOT = Path(__file__).parents[2]
WORK = ROOT / "build" / "cross"
CORE = ROOT / "src" / "privgram" / "_core"
ZIG = Path(ziglang.__file__).parent / "zig"
GLIBC = "2.28"
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]

#: The release of Debian that has this Python, its QEMU without dependencies, what else Meson needs.
DEBIAN = {
    "3.11": ("bookworm", "qemu-user-static", ["python3-distutils"]),
    "3.13": ("trixie", "qemu-user", []),
}
VERSION = "{}.{}".format(*sys.version_info)

FLAGS = "-std=gnu11 -O3 -ffp-contract=off -fvisibility=hidden -Wall -Wextra -Werror"
AVX512 = "-mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mprefer-vector-width=512"
#: The kernels and what each is compiled with on top, as in meson.build; AVX for x86-64 only, and
#: AMX for Linux on it.
KERNELS = {
    "gram.c": "",
    "coded.c": "",
    "gram_portable.c": "",
    "gram_avx2.c": "-mavx2 -mfma",
    "gram_avx512.c": AVX512,
    "gram_amx.c": f"{AVX512} -mamx-tile -mamx-int8",
    "chacha.c": "",
    "discrete.c": f"-I{np.get_include()}",  # of NumPy's random generators, for all platforms
}
#: zig's names of the platforms that are only compiled for, and flags of their own.
TARGETS = {
    "x86_64-linux-musl": "",
    "aarch64-linux-musl": "",
    "x86_64-windows-gnu": "",
    "aarch64-windows-gnu": "",
    "x86_64-macos": "",
    "aarch64-macos": "",
    "riscv64-linux-gnu": "-Wno-pass-failed",  # said of a loop that is not unrolled
    "powerpc64le-linux-gnu": "-Wno-deprecated-altivec-src-compat",  # of a later compiler
    "s390x-linux-gnu": "",  # big-endian
    "wasm32-wasi": "",
}

APT = """\
APT::Architecture "{architecture}";
APT::Architectures {{ "{architecture}"; "amd64"; }};
APT::Sandbox::User "";
Acquire::Languages "none";
Dir::State "{state}";
Dir::State::status "{state}/status";
Dir::Cache "{state}/cache";
Dir::Etc "{state}/etc";
Dir::Etc::parts "{state}/etc/none";
Dir::Etc::sourceparts "{state}/etc/none";
"""

CROSS = """\
[binaries]
c = ['{zig}', 'cc', '-target', 'aarch64-linux-gnu.{glibc}', '-s']
ar = '{ar}'
python = '{python}'
numpy-config = ['{python}', '-m', 'numpy._configtool']
[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""


def run(*command: object, cwd: Path = ROOT, **env: str) -> None:
    """Run a command, with variables of the environment; stop if it fails."""
    subprocess.run([str(part) for part in command], env=os.environ | env, cwd=cwd, check=True)


def script(path: Path, text: str) -> Path:
    """Write a shell script that can be run."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def archiver() -> Path:
    """Write an `ar` that makes no thin archives, for which Meson asks by the letter T."""
    return script(WORK / "ar", f'how=$(echo "$1" | tr -d T); shift; exec "{ZIG}" ar "$how" "$@"')


def debian(architecture: str) -> Path:
    """Unpack Debian's Python of an architecture, and QEMU; return the folder that is its root."""
    if VERSION not in DEBIAN:
        sys.exit(f"Debian has no Python {VERSION}, but {', '.join(DEBIAN)}: make PYTHON=")
    suite, qemu, more = DEBIAN[VERSION]
    state, root, unpacked = WORK / "apt", WORK / "root", WORK / "root.new"
    if root.exists():
        return root
    for folder in ("lists/partial", "cache/archives/partial", "etc/none", "etc/preferences.d"):
        (state / folder).mkdir(parents=True, exist_ok=True)
    (state / "status").touch()
    keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
    source = f"deb [signed-by={keys}] http://deb.debian.org/debian {suite} main\n"
    (state / "etc" / "sources.list").write_text(source, encoding="utf-8")
    config = state / "apt.conf"
    config.write_text(APT.format(architecture=architecture, state=state), encoding="utf-8")

    def apt(*words: str) -> None:
        run("apt-get", "--quiet", *words, cwd=state, APT_CONFIG=str(config))

    apt("update")
    python = (f"python{VERSION}", f"libpython{VERSION}-dev", "libstdc++6", *more)
    apt("install", "--yes", "--download-only", "--no-install-recommends", *python)
    apt("download", f"{qemu}:amd64")
    run("dpkg", "--extract", next(state.glob("*.deb")), WORK / "qemu")
    for package in (state / "cache" / "archives").glob("*.deb"):
        run("dpkg", "--extract", package, unpacked)
    # Python's headers are not in /usr, nor is pyconfig.h beside headers of Debian's C library.
    headers = unpacked / "usr" / "include"
    shutil.copy(
        next(headers.glob(f"*-linux-gnu/python{VERSION}/pyconfig.h")), headers / f"python{VERSION}"
    )
    data = next(unpacked.glob(f"usr/lib/python{VERSION}/_sysconfigdata__*.py")).resolve()
    text = data.read_text(encoding="utf-8")
    data.write_text(text.replace("/usr/include", f"{root}/usr/include"), encoding="utf-8")
    return unpacked.rename(root)


def aarch64(*tests: str) -> None:
    """Build a wheel for aarch64 and run tests with it."""
    root, site = debian("arm64"), WORK / "site"
    qemu = sorted((WORK / "qemu" / "usr" / "bin").glob("qemu-aarch64*"))[0]  # not aarch64_be
    python = script(
        WORK / "python",
        f'PYTHONPATH="{site}" PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1 '
        f'exec "{qemu}" -L "{root}" "{root}/usr/bin/python{VERSION}" "$@"',
    )
    if not site.exists():
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
        needed = ["hypothesis", "mpmath", "pytest", *project["project"]["dependencies"]]
        needed += [each for each in project["build-system"]["requires"] if "openblas" in each]
        platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in (28, 27, 17)]
        run(*PIP, "install", "--only-binary=:all:", *platforms, "--target", site, *needed)
    cross = WORK / "aarch64.ini"
    files = {"zig": ZIG, "glibc": GLIBC, "ar": archiver(), "python": python}
    cross.write_text(CROSS.format(**files), encoding="utf-8")
    for old in WORK.glob("*.whl"):
        old.unlink()
    # Not isolated, or pip would fetch the build's tools for the platform that it is told.
    settings = (f"setup-args=--cross-file={cross}", f"build-dir={WORK / 'aarch64'}")
    run(*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", WORK,
        *(f"--config-settings={each}" for each in settings), ".",
        _PYTHON_HOST_PLATFORM="linux-aarch64")  # fmt: skip
    shutil.rmtree(site / "privgram", ignore_errors=True)
    with zipfile.ZipFile(next(WORK.glob("*_aarch64.whl"))) as wheel:
        wheel.extractall(site)
    # Vectors and kernels of a Graviton 3: no processor has all that QEMU's own has.
    run(python, "-m", "pytest", "-p", "no:cacheprovider", "-m", "not slow", *tests,
        OPENBLAS_NUM_THREADS="1", OPENBLAS_CORETYPE="NEOVERSEV1",
        QEMU_CPU="max,sve-max-vq=2")  # fmt: skip


def compile_only() -> None:
    """Compile the kernels for every other platform."""
    for target, more in TARGETS.items():
        compiler = [ZIG, "cc", "-target", target, *FLAGS.split(), *more.split()]
        for name, flags in KERNELS.items():
            needs = "x86_64-linux" if "amx" in name else "x86_64" if "avx" in name else ""
            if target.startswith(needs):
                run(*compiler, *flags.split(), "-c", CORE / name, "-o", WORK / "object.o")
        print(f"{target}: compiles", flush=True)


def manylinux(*interpreters: str) -> None:
    """Build a wheel with each interpreter, look at what it asks of a machine, and have it tried."""
    built, done = WORK / "built", WORK / "manylinux"
    tag = f"manylinux_{GLIBC.replace('.', '_')}_x86_64"
    # zig's own runtime library finds no features of the processor, so that AVX would never be used.
    libgcc = subprocess.check_output(["cc", "-print-libgcc-file-name"], text=True).strip()
    compiler = {
        "CC": f"{ZIG} cc -target x86_64-linux-gnu.{GLIBC} -s",
        "AR": str(archiver()),
        "LDFLAGS": libgcc,
    }
    pc = "import sysconfig; print(sysconfig.get_config_var('LIBPC'))"  # not the headers of /usr
    has = "from privgram._core import rows; assert 'avx2' in rows.available(), rows.available()"
    for interpreter in interpreters:
        shutil.rmtree(built, ignore_errors=True)
        venv = WORK / "venv"
        run(interpreter, "-m", "venv", "--clear", "--without-pip", venv)
        pip = [*PIP, "--python", venv / "bin" / "python"]
        compiler["PKG_CONFIG_LIBDIR"] = subprocess.check_output(
            [interpreter, "-c", pc], text=True
        ).strip()
        run(*pip, "wheel", "--no-deps", "--wheel-dir", built, ".", **compiler)
        run(sys.executable, "-m", "auditwheel", "repair", "--plat", tag, "--wheel-dir", built,
            next(built.glob("*.whl")))  # fmt: skip
        wheel = next(built.glob(f"*{tag}*.whl"))
        if any(".libs/" in name for name in zipfile.ZipFile(wheel).namelist()):
            sys.exit(f"{wheel.name}: auditwheel copied a library in, and the wheel brings its own")
        run(*pip, "install", "--only-binary=:all:", f"{wheel}[cli]")
        run(venv / "bin" / "privgram", "doctor")
        if "avx2" in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
            run(venv / "bin" / "python", "-c", has)
        done.mkdir(exist_ok=True)
        shutil.move(wheel, done / wheel.name)


VERBS = {"aarch64": aarch64, "compile": compile_only, "manylinux": manylinux}

if __name__ == "__main__":
    WORK.mkdir(parents=True, exist_ok=True)
    VERBS[sys.argv[1]](*sys.argv[2:])
