"""Hook of mkdocs: links from docs/ to the rest of the repository become the file's path, since the site has docs/ only."""
import posixpath
import re

FENCE = re.compile(r"(^```.*?^```)", re.S | re.M)
LINK = re.compile(r"(?<!!)\[([^\]\n]+)\]\(([^)\s]+)\)")


def on_page_markdown(markdown, page, **_):
    folder = posixpath.dirname("docs/" + page.file.src_uri)

    def replaced(link):
        path = posixpath.normpath(posixpath.join(folder, link[2].partition("#")[0]))
        if ":" in link[2] or link[2].startswith("#") or path.startswith("docs/"):
            return link[0]
        return f"{link[1]} (`{path}`)"

    return "".join(part if part.startswith("```") else LINK.sub(replaced, part) for part in FENCE.split(markdown))
