"""Why a group waits: what each command, the console and the docs say."""
