"""The version document of the server."""

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.3+localcluster",
    "gitCommit": "",
    "gitTreeState": "clean",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}
