"""Names of generated objects, and Kubernetes' rules for names.

The same input always results in the same name, so controllers and webhooks agree without
communication. Names fit a label value (63 characters), as pods name their group by a label.

A name that is joined from several names keeps them all apart: `a` with `b-c` and `a-b` with `c` are
two names. The plain join is used where it can be read in one way only. All other names end in a
hash of their parts (`unique`).
"""

import hashlib
import re
from typing import Final

from api.constants import (
    COMPOSITE_POD_GROUP,
    COSCHEDULING,
    JOB,
    JOBSET,
    LABEL_VALUE_LENGTH,
    LEADER_WORKER_SET,
    OBJECT_NAME_LENGTH,
    POD_GROUP,
    WORKLOAD,
)

_HEAD: Final = 52
_HASH: Final = 10

HASHED: Final = "Hashed"
"""The form of a JobSet's names in versions before 0.3, if the usual ones were taken."""

JOINED: Final = "Joined"
"""The form of a JobSet's names if some need a hash, because they would be ambiguous without it."""

UNIQUE: Final = "Unique"
"""The form of a JobSet's names that all have a hash, as other owners have the usual ones."""

_WORKLOADS: Final = {
    JOB.kind: "w-job-",
    JOBSET.kind: "w-",
    LEADER_WORKER_SET.kind: "w-lws-",
    COSCHEDULING.kind: "w-pg-",
}
_RESERVED: Final = frozenset({"job", "lws", "pg"})
"""Parts of the prefixes of generated names, so that no plain name begins with one of them."""

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(rf"{_LABEL.pattern}(\.{_LABEL.pattern})*")
_HASH_LIKE: Final = re.compile(rf"(.*-)?[0-9a-f]{{{_HASH}}}")
_LIKE_A_JOB: Final = re.compile(r"[^-]+-[^-]+-[0-9]+")
_OUTSIDE_LABELS: Final = re.compile(r"[^a-z0-9]+")
_QUALIFIED_NAME: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def shorten(name: str, kind: str, namespace: str) -> str:
    """Return `name` if it has at most 63 characters, else its hashed form."""
    return name if len(name) <= LABEL_VALUE_LENGTH else hashed(name, kind, namespace)


def hashed(name: str, kind: str, namespace: str) -> str:
    """Return the form of a long or taken name: 52 characters, `-`, 10 hex digits of SHA-256."""
    return _with_digits(name, f"{kind}/{namespace}/{name}")


def unique(*parts: str, kind: str = "") -> str:
    """Return the name of these parts that no other parts of the kind have, with a hash of them."""
    # No name has a slash.
    return _with_digits("-".join(part for part in parts if part), "/".join((kind, *parts)))


def is_plain(jobset: str, replicated_job: str = "", index: str = "") -> bool:
    """Return True if the usual name of a JobSet's group, without a hash, has no other meaning.

    The plain names are those of JobSets, and of Jobs if no part has a `-`. That of a replicatedJob
    may always be a JobSet's.
    """
    if jobset.partition("-")[0] in _RESERVED or len(jobset) + len(replicated_job) > _HEAD:
        return False
    if replicated_job:
        return bool(index) and "-" not in jobset + replicated_job
    return not (_LIKE_A_JOB.fullmatch(jobset) or _HASH_LIKE.fullmatch(jobset))


def request_digits(request_uid: str) -> str:
    """Return 10 hex digits that no other admission request has."""
    return _digest(request_uid)


def workload_name(owner_kind: str, owner_name: str) -> str:
    """Return the Workload of a Job, a JobSet (`w-NAME`), a LeaderWorkerSet or a KEP-3370 group."""
    usual = _WORKLOADS[owner_kind] + owner_name
    # The Workload of Job `a` has the usual name of JobSet `job-a`.
    ambiguous = owner_kind == JOBSET.kind and owner_name.partition("-")[0] in _RESERVED
    if ambiguous or len(usual) > LABEL_VALUE_LENGTH:
        return unique(usual, kind=owner_kind)
    return usual


def jobset_pod_group(
    namespace: str, jobset: str, replicated_job: str = "", index: int | None = None, form: str = ""
) -> str:
    """Return the PodGroup of a JobSet, of one of its replicatedJobs, or of one of their Jobs.

    `form` is that of the JobSet's names: HASHED, JOINED, UNIQUE, or a text for names that no later
    JobSet uses. Without it the names are the usual ones.
    """
    number = "" if index is None else str(index)
    return _of_jobset(POD_GROUP.kind, namespace, form, "pg", jobset, replicated_job, number)


def jobset_composite(namespace: str, jobset: str, replicated_job: str = "", form: str = "") -> str:
    """Return the CompositePodGroup of a JobSet or of one of its replicatedJobs."""
    return _of_jobset(COMPOSITE_POD_GROUP.kind, namespace, form, "cpg", jobset, replicated_job)


def lws_composite(namespace: str, lws: str, index: int | None = None) -> str:
    """Return the CompositePodGroup of a LeaderWorkerSet, or of a replica (always hashed)."""
    usual = f"cpg-lws-{lws}"
    if index is None:
        return shorten(usual, COMPOSITE_POD_GROUP.kind, namespace)
    return pod_group_of_value(usual, "replica", str(index))


def tree_root(namespace: str, tree: str) -> str:
    """Return the root, and the Workload, of a tree of several owners."""
    return shorten(f"tree-{tree}", COMPOSITE_POD_GROUP.kind, namespace)


def job_pod_group(namespace: str, job: str, *, taken: bool = False) -> str:
    """Return the PodGroup of a Job that does not belong to a JobSet."""
    taken = taken or _HASH_LIKE.fullmatch(job) is not None
    return (hashed if taken else shorten)(f"pg-job-{job}", POD_GROUP.kind, namespace)


def generated_job_pod_group(generate_name: str, request_uid: str) -> str:
    """Return the PodGroup of a Job whose name the API server has not generated yet."""
    # The UID of the admission request is the only value at that time that no other Job shares.
    return _with_digits(f"pg-job-{generate_name}", request_uid)


def requested_pod_group(kind: str, name: str, request_uid: str) -> str:
    """Return the PodGroup of an object, unique by the UID of the request that asked for it."""
    return _with_digits(f"pg-{kind.lower()}-{name}", request_uid)


def substitute_name(name: str, uid: str) -> str:
    """Return the group of an owner with this UID, if another has the name that its pods give."""
    return _with_digits(name, f"{uid}/{name}")


def pod_template(root: str, identity: str) -> str:
    """Return the PodTemplate of a root's pods; `identity` is its UID with their requirements."""
    return _with_digits(root, identity)


def template_name(prefix: str, name: str, namespace: str) -> str:
    """Return a template's name: `PREFIX-NAME`, hashed if that is no DNS label."""
    wanted = f"{prefix}-{name}"
    if is_dns_label(wanted):
        return wanted
    return hashed(wanted, "Template", namespace).replace(".", "-")


def implicit_pod_group(workload: str, template: str, replica_key: str = "") -> str:
    """Return the PodGroup that pods name by workload, template and replica key (KEP-4671)."""
    # With a replica key, the plain name may be that of an older group of another template.
    plain = not (replica_key or "-" in workload + template or workload in _RESERVED)
    name = f"{workload}-{template}"
    if plain and len(name) <= LABEL_VALUE_LENGTH and not _HASH_LIKE.fullmatch(name):
        return name
    return unique(workload, template, replica_key, kind=WORKLOAD.kind)


def subset_pod_group(group: str, subset: str) -> str:
    """Return the PodGroup of a subset of a KEP-3370 group, which is `group` without a subset."""
    # Always with a hash, as a KEP-3370 group itself may have the plain name.
    return unique(group, subset, kind=COSCHEDULING.kind) if subset else group


def earlier_name(*parts: str) -> str:
    """Return the name of an implicit group, or of a subset's, in versions before 0.3."""
    return "-".join(part for part in parts if part)


def group_claim(group: str, entry: str) -> str:
    """Return the ResourceClaim of a PodGroup for an entry of its claims: `GROUP.ENTRY`.

    If this is too long, the group is cut, with `-` and 10 hex digits of its SHA-256 before the dot.
    """
    # An entry is a DNS label without dots, so no other group and entry result in this name.
    usual = f"{group}.{entry}"
    if len(usual) <= OBJECT_NAME_LENGTH:
        return usual
    head = group[: OBJECT_NAME_LENGTH - len(entry) - _HASH - 2].rstrip(".-")
    return f"{head}-{_digest(group)}.{entry}"


def pod_group_of_value(name: str, key: str, value: str) -> str:
    """Return the PodGroup of the pods that name `name` and whose label `key` has this value."""
    # Always with a hash: `a` with value `b-c` and `a-b` with value `c` are two groups.
    head = _OUTSIDE_LABELS.sub("-", f"{name}-{value}".lower())[:_HEAD].strip("-")
    return f"{head}-{_digest(f'{name}/{key}/{value}')}".lstrip("-")


def is_dns_label(text: str) -> bool:
    """Return True for an RFC 1123 label: 1 to 63 of a-z, 0-9, `-`, alphanumeric at both ends."""
    return len(text) <= 63 and _LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: str) -> bool:
    """Return True for an RFC 1123 subdomain: dot-separated labels, at most 253 characters.

    As in Kubernetes, the length of each label is not limited.
    """
    return len(text) <= OBJECT_NAME_LENGTH and _SUBDOMAIN.fullmatch(text) is not None


def is_label_key(text: str) -> bool:
    """Return True for a qualified name like those of label keys: `[prefix/]name`."""
    prefix, slash, name = text.rpartition("/")
    if slash and not is_dns_subdomain(prefix):
        return False
    return len(name) <= 63 and _QUALIFIED_NAME.fullmatch(name) is not None


def is_label_value(text: str) -> bool:
    """Return True for a label value: at most 63 letters, digits, `-`, `_` and `.`, or empty."""
    return not text or (len(text) <= LABEL_VALUE_LENGTH and bool(_QUALIFIED_NAME.fullmatch(text)))


def is_path_segment(text: str) -> bool:
    """Return True for a name that is safe as one segment of a URL path."""
    return text not in {".", ".."} and "/" not in text and "%" not in text


def _of_jobset(kind: str, namespace: str, form: str, prefix: str, *parts: str) -> str:
    usual = earlier_name(prefix, *parts)
    if form in {"", HASHED}:
        return (hashed if form else shorten)(usual, kind, namespace)
    if form == JOINED and is_plain(*parts):
        return usual
    return unique(prefix, *parts, kind=form)


def _with_digits(name: str, text: str) -> str:
    """Return 52 characters of the name, `-`, and 10 hex digits of the text's SHA-256."""
    return f"{name[:_HEAD].rstrip('.-')}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH]
