"""Answers pip's question for a source archive's metadata without running the archive's own `setup.py`.

`cargo xtask data` wants one old source archive for the texts in it. `pip download` insists on its metadata and would run
code from the archive to get it. This module stands where pip looks for the build tool (with --no-build-isolation and this
folder's parent on PYTHONPATH) and answers from two environment variables instead.
"""

import os


def get_requires_for_build_wheel(config_settings=None):
    return []


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    name, version = os.environ["XTASK_PACKAGE"], os.environ["XTASK_VERSION"]
    folder = f"{name}-{version}.dist-info"
    os.makedirs(os.path.join(metadata_directory, folder))
    with open(os.path.join(metadata_directory, folder, "METADATA"), "w") as file:
        file.write(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    return folder


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise NotImplementedError("only metadata is provided here: nothing is built")


class __legacy__:
    """What pip asks for when an archive has no `pyproject.toml`."""

    get_requires_for_build_wheel = staticmethod(get_requires_for_build_wheel)
    prepare_metadata_for_build_wheel = staticmethod(prepare_metadata_for_build_wheel)
    build_wheel = staticmethod(build_wheel)
