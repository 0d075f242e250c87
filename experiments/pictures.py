# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pictures of 32 x 32 pixels and 8 bits per channel from the PNGs of Debian's `openclipart-png`.

Each drawing is cut to its opaque part, put on white and scaled to 32 x 32. Links, drawings of more than 2,097,152 pixels, a
series of computed stars, and files whose picture is equal to an earlier one are left out. 500 drawn pictures are held out. Needs Pillow (Debian: python3-pil).
"""
import random
import subprocess

from PIL import Image

PACKAGE = "openclipart-png"
FOLDER = "usr/share/openclipart/png"
SERIES = "shapes/stars"  # 1,378 computed drawings that differ in a few points
SIZE = 32
HELD_OUT = 500
MOST_PIXELS = 1 << 21


def read_picture(path):
    """Bytes of the scaled picture, or None for a drawing that is too large or has no opaque part."""
    drawing = Image.open(path)
    if drawing.width * drawing.height > MOST_PIXELS:
        return None
    drawing = drawing.convert("RGBA")
    opaque = drawing.getchannel("A").getbbox()
    if not opaque:
        return None
    drawing = drawing.crop(opaque)
    picture = Image.alpha_composite(Image.new("RGBA", drawing.size, "white"), drawing).convert("RGB")
    return picture.resize((SIZE, SIZE), Image.Resampling.BOX).tobytes()


Image.MAX_IMAGE_PIXELS = None


def make(folder):
    """Paths of training and held-out pictures, their bytes one after the other."""
    paths = folder / "training.rgb", folder / "held-out.rgb"
    if paths[1].exists():
        return paths
    root = folder / "package"
    if not (root / FOLDER).exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(f"apt-get download {PACKAGE} && dpkg-deb -x {PACKAGE}_*.deb .", shell=True, check=True, cwd=root)
    files = sorted(path for path in (root / FOLDER).rglob("*.png") if not path.is_symlink() and SERIES not in str(path))
    pictures = list({picture: None for path in files if (picture := read_picture(path))})
    random.Random(1).shuffle(pictures)
    paths[0].write_bytes(b"".join(pictures[HELD_OUT:]))
    paths[1].write_bytes(b"".join(pictures[:HELD_OUT]))
    return paths
