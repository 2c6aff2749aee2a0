"""extract.py ARCHIVE FOLDER PREFIX SUFFIX: copies the regular files PREFIX…SUFFIX of a tar.gz into FOLDER, flat.

Only file contents are taken: names with a folder behind the prefix, links and devices are passed over, so no member can
write outside FOLDER.
"""

import os
import sys
import tarfile

archive, folder, prefix, suffix = sys.argv[1:]
with tarfile.open(archive, "r:gz") as tar:
    for member in tar:
        name = member.name.removeprefix(prefix)
        wanted = member.name.startswith(prefix) and name.endswith(suffix) and "/" not in name and "\\" not in name
        if wanted and member.isreg():
            with open(os.path.join(folder, name), "xb") as out:
                out.write(tar.extractfile(member).read())
