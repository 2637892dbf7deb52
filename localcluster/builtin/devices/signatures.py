"""The types of the names and functions that device selectors may use.

They match the CEL environment of Kubernetes 1.36. Nothing here evaluates expressions: the scheduler
does.
"""

VARIABLES = {
    "device.driver": "string",
    "device.attributes": "{{any}}",
    "device.capacity": "{{Quantity}}",
    "device.allowMultipleAllocations": "bool",
}

FUNCTIONS = """
quantity(string) Quantity
isQuantity(string) bool
sign(Quantity) int
Quantity.isInteger() bool
Quantity.asInteger() int
Quantity.asApproximateFloat() double
Quantity.isGreaterThan(Quantity) bool
Quantity.isLessThan(Quantity) bool
Quantity.compareTo(Quantity) int
Quantity.add(Quantity) Quantity
Quantity.add(int) Quantity
Quantity.sub(Quantity) Quantity
Quantity.sub(int) Quantity
semver(string) Semver
semver(string,bool) Semver
isSemver(string) bool
isSemver(string,bool) bool
Semver.isGreaterThan(Semver) bool
Semver.isLessThan(Semver) bool
Semver.compareTo(Semver) int
Semver.major() int
Semver.minor() int
Semver.patch() int
ip(string) IP
isIP(string) bool
ip.isCanonical(string) bool
IP.family() int
IP.isUnspecified() bool
IP.isLoopback() bool
IP.isLinkLocalMulticast() bool
IP.isLinkLocalUnicast() bool
IP.isGlobalUnicast() bool
cidr(string) CIDR
isCIDR(string) bool
CIDR.containsIP(string) bool
CIDR.containsIP(IP) bool
CIDR.containsCIDR(string) bool
CIDR.containsCIDR(CIDR) bool
CIDR.ip() IP
CIDR.prefixLength() int
CIDR.masked() CIDR
url(string) URL
isURL(string) bool
URL.getScheme() string
URL.getHost() string
URL.getHostname() string
URL.getPort() string
URL.getEscapedPath() string
URL.getQuery() {[string]}
string.find(string) string
string.findAll(string) [string]
string.findAll(string,int) [string]
[any].sum() any
[any].min() any
[any].max() any
[any].isSorted() bool
sets.contains([any],[any]) bool
sets.equivalent([any],[any]) bool
sets.intersects([any],[any]) bool
"""
