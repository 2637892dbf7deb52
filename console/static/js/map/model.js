// The cluster as the server tells it, indexed, and kept up to date by changes.

export class ClusterModel {
  /** @param {Message<"Map">} map */
  constructor(map) {
    this.resource = map.resource;
    this.resources = map.resources?.length ? map.resources : [{ name: map.resource, unit: "" }];
    this.unit = this.resources.find(({ name }) => name === map.resource)?.unit ?? "";
    this.keys = map.keys ?? [];
    this.roots = map.domains ?? [];
    /** @type {Map<string, Message<"Domain">>} */
    this.domains = new Map();
    /** @type {Map<string, Message<"Node">>} */
    this.nodes = new Map();
    this.homes = new Map(); // node name -> its innermost domain
    this.parents = new Map(); // domain ID -> the domain around it
    for (const root of this.roots) this.#index(root, null);
  }

  /** @param {Message<"Domain">} domain @param {Message<"Domain"> | null} parent */
  #index(domain, parent) {
    this.domains.set(domain.id, domain);
    if (parent) this.parents.set(domain.id, parent);
    for (const child of domain.children ?? []) this.#index(child, domain);
    for (const node of domain.nodes ?? []) {
      this.nodes.set(node.name, node);
      this.homes.set(node.name, domain);
    }
  }

  // Takes a change in. Returns the names of the nodes it changed, or null if it names a node or
  // a domain that is not known here: then everything has to be fetched again.
  /** @param {Partial<Message<"MapChange">>} change */
  apply({ nodes = [], domains = [] }) {
    for (const node of nodes) if (!this.nodes.has(node.name)) return null;
    for (const domain of domains) if (!this.domains.has(domain.id)) return null;
    for (const node of nodes) Object.assign(this.nodes.get(node.name), node);
    for (const domain of domains) Object.assign(this.domains.get(domain.id), domain);
    return nodes.map((node) => node.name);
  }

  // From the outermost domain to this one.
  path(id) {
    const path = [];
    for (let at = this.domains.get(id); at; at = this.parents.get(at.id)) path.unshift(at);
    return path;
  }

  totals() {
    const sum = { capacity: 0, used: 0, held: 0, free: 0 };
    for (const root of this.roots) {
      for (const name of Object.keys(sum)) sum[name] += root[name] ?? 0;
    }
    return { ...sum, nodes: this.nodes.size };
  }
}

export function* nodesOf(domain) {
  yield* domain.nodes ?? [];
  for (const child of domain.children ?? []) yield* nodesOf(child);
}

// How full, from 0 to 1; an empty capacity is nothing to fill.
export const share = ({ used, capacity }) =>
  capacity > 0 ? Math.min(1, Math.max(0, used / capacity)) : 0;
