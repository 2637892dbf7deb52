"""OwnerReferencesPermissionEnforcement: setting an owner requires permissions on the owner."""

from localcluster.base.errors import StatusError, forbidden
from localcluster.base.hooks import AdmissionRequest, Object
from localcluster.base.resources import Registry
from localcluster.rbac.attributes import Attributes
from localcluster.rbac.authorizer import Authorizer


class OwnerPermissions:
    """The API server's admission plugin of that name, which hardened clusters enable."""

    def __init__(self, authorizer: Authorizer, registry: Registry) -> None:
        """Create the plugin; `registry` maps the kind of an owner to its resource."""
        self._authorizer = authorizer
        self._registry = registry

    async def mutate(self, request: AdmissionRequest) -> None:
        """Do nothing."""

    async def validate(self, request: AdmissionRequest) -> None:
        """Raise StatusError 403 for an owner to which the user may not bind objects."""
        if request.operation not in {"CREATE", "UPDATE"} or request.kind is not None:
            return
        before, after = _owners(request.old), _owners(request.obj)
        if before == after:
            return
        if request.operation == "UPDATE" and not self._may_delete(request):
            why = "cannot set an ownerRef on a resource you can't delete: , <nil>"
            raise forbidden(request.info, request.name, why)
        known = {ref["uid"] for ref in before if ref.get("blockOwnerDeletion")}
        for ref in after:
            if ref.get("blockOwnerDeletion") and ref["uid"] not in known:
                self._check_blocking(request, ref)

    def _may_delete(self, request: AdmissionRequest) -> bool:
        info = request.info
        asked = Attributes(
            "delete", info.group, info.version, info.plural, "", request.namespace, request.name
        )
        return self._authorizer.decide(request.user, asked).allowed

    def _check_blocking(self, request: AdmissionRequest, ref: Object) -> None:
        info = self._registry.by_api_version(ref["apiVersion"], ref["kind"])
        if info is None:
            raise self._unknown(request, ref)
        namespace = request.namespace if info.namespaced else ""
        asked = Attributes(
            "update", info.group, info.version, info.plural, "finalizers", namespace, ref["name"]
        )
        if not self._authorizer.decide(request.user, asked).allowed:
            why = (
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't"
                " set finalizers on: , <nil>"
            )
            raise forbidden(request.info, request.name, why)

    def _unknown(self, request: AdmissionRequest, ref: Object) -> StatusError:
        version = ref["apiVersion"]
        why = (
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"
            f" APIVersion {version} Kind {ref['kind']}: no matches for kind"
            f' "{ref["kind"]}" in version "{version}"'
        )
        return forbidden(request.info, request.name, why)


def _owners(obj: Object | None) -> list[Object]:
    return (obj or {}).get("metadata", {}).get("ownerReferences") or []
