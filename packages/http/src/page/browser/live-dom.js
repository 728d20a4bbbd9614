// The browser part of live pages that knows the document. A hole is what a template left open: an
// element with attributes that may change (marked by `data-live`), or what is between two comments,
// `[` and `]`. Before each item of a list there is a comment `,`.

const inert = document.implementation.createHTMLDocument('');

/** The holes in an element, as a tree: each has its parts, or its items. */
export function readHoles(parent) {
  const top = { parts: [], items: undefined, start: undefined, end: undefined };
  const shown = NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_COMMENT;
  const walker = document.createTreeWalker(parent, shown);
  const outer = [];
  let inner = top;
  const leaveItem = () => {
    if (inner.start?.data === ',') inner = outer.pop();
  };
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (node.nodeType === Node.ELEMENT_NODE) {
      if (node.hasAttribute('data-live')) inner.parts.push(node);
    } else if (node.data === '[') {
      const hole = { parts: [], items: undefined, start: node, end: undefined };
      inner.parts.push(hole);
      outer.push(inner);
      inner = hole;
    } else if (node.data === ',') {
      leaveItem();
      const item = { parts: [], items: undefined, start: node };
      inner.items ??= [];
      inner.items.push(item);
      outer.push(inner);
      inner = item;
    } else if (node.data === ']') {
      leaveItem();
      inner.end = node;
      if (node.parentNode !== inner.start?.parentNode) {
        throw new Error('live: the browser reads this HTML otherwise than it is written');
      }
      inner = outer.pop();
    }
  }
  return top;
}

/** The hole or item at a path, and the node before which it ends. */
function find(top, path) {
  let hole = top;
  let end = null;
  for (const index of path) {
    const { items } = hole;
    end = items ? (items[index + 1]?.start ?? end) : (hole.parts[index].end ?? null);
    hole = items ? items[index] : hole.parts[index];
  }
  return { hole, end };
}

function nodesBetween(start, end) {
  const nodes = [];
  for (let node = start; node !== end; node = node.nextSibling) nodes.push(node);
  return nodes;
}

/** Nodes made of HTML as if it stood inside this parent; its scripts do not run. */
function parse(parent, html) {
  const box = inert.createElementNS(parent.namespaceURI, parent.localName);
  box.innerHTML = html;
  return box;
}

function fill(hole, end, html) {
  for (const node of nodesBetween(hole.start.nextSibling, end)) node.remove();
  const box = parse(end.parentNode, html);
  // Read before it is moved: as a list, the items end where the box does.
  const { parts, items } = readHoles(box);
  hole.parts = parts;
  hole.items = items;
  end.before(...box.childNodes);
}

/** Changes only the characters that differ, so that a selection around them stays. */
function setText(hole, end, text) {
  const node = hole.start.nextSibling;
  if (node === end || node.nodeType !== Node.TEXT_NODE || node.nextSibling !== end) {
    for (const old of nodesBetween(node, end)) old.remove();
    hole.parts = [];
    hole.items = undefined;
    end.before(text);
    return;
  }
  const before = node.data;
  const shorter = Math.min(before.length, text.length);
  let head = 0;
  while (head < shorter && before[head] === text[head]) head += 1;
  let tail = 0;
  while (tail < shorter - head && before.at(-1 - tail) === text.at(-1 - tail)) tail += 1;
  node.replaceData(head, before.length - head - tail, text.slice(head, text.length - tail));
}

/** Places of a list of numbers that make its longest increasing run: these items can stay. */
function increasing(numbers) {
  const lastOf = [];
  const previous = [];
  for (const [place, number] of numbers.entries()) {
    if (number === undefined) continue;
    let low = 0;
    for (let high = lastOf.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (numbers[lastOf[middle]] < number) low = middle + 1;
      else high = middle;
    }
    previous[place] = lastOf[low - 1];
    lastOf[low] = place;
  }
  const places = new Set();
  for (let place = lastOf.at(-1); place !== undefined; place = previous[place]) places.add(place);
  return places;
}

function move(node, parent, before) {
  // It keeps focus, scroll and playing media, where browsers have it.
  if (parent.moveBefore) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

function setItems(list, end, steps) {
  const old = list.items ?? [];
  const order = steps.flatMap((step) => {
    if (!Array.isArray(step)) return [step];
    return Array.from({ length: step[1] }, (_, index) => step[0] + index);
  });
  const numbers = order.map((step) => (typeof step === 'number' ? step : undefined));
  const kept = new Set(numbers);
  const stays = increasing(numbers);
  const nodes = old.map((item, index) => nodesBetween(item.start, old[index + 1]?.start ?? end));
  for (const [index, ones] of nodes.entries()) {
    if (!kept.has(index)) for (const node of ones) node.remove();
  }
  const parent = end.parentNode;
  let before = end;
  list.items = [];
  for (let place = order.length - 1; place >= 0; place -= 1) {
    const step = order[place];
    let item = old[step];
    if (typeof step === 'string') {
      const box = parse(parent, `<!--,-->${step}`);
      [item] = readHoles(box).items;
      before.before(...box.childNodes);
    } else if (!stays.has(place)) {
      for (const node of nodes[step]) move(node, parent, before);
    }
    list.items.push(item);
    before = item.start;
  }
  list.items.reverse();
}

/** Does what the server found to have changed. */
export function applyPatch(top, steps) {
  for (const [kind, path, value, more] of steps) {
    const { hole, end } = find(top, path);
    if (kind === 't') setText(hole, end, value);
    else if (kind === 'h') fill(hole, end, value);
    else if (kind === 'c') hole.textContent = value;
    else if (kind === 'l') setItems(hole, end, value);
    else if (more === null) hole.removeAttribute(value);
    else hole.setAttribute(value, more);
  }
}

function isAlike(node, other) {
  if (node.nodeName !== other.nodeName) return false;
  return node.nodeType === Node.COMMENT_NODE ? node.data === other.data : node.id === other.id;
}

/** Distance in siblings to the next node like this one; Infinity if there is none near. */
function distance(node, wanted) {
  let away = 0;
  for (let next = node; next !== null && away < 64; next = next.nextSibling) {
    if (isAlike(next, wanted)) return away;
    away += 1;
  }
  return Number.POSITIVE_INFINITY;
}

/** Makes an element hold what another holds, keeping what can stay, with what was typed in it. */
export function morph(element, model) {
  let node = element.firstChild;
  let other = model.firstChild;
  while (other !== null) {
    const removed = node === null ? Number.POSITIVE_INFINITY : distance(node, other);
    const added = node === null ? 0 : distance(other, node);
    const { nextSibling } = other;
    if (removed > 0 && removed >= added) {
      element.insertBefore(other, node);
    } else {
      for (let left = removed; left > 0; left -= 1) {
        node = node.nextSibling;
        node.previousSibling.remove();
      }
      if (node.nodeType === Node.ELEMENT_NODE) {
        morphAttributes(node, other);
        morph(node, other);
      } else if (node.data !== other.data) node.data = other.data;
      node = node.nextSibling;
    }
    other = nextSibling;
  }
  for (const rest of nodesBetween(node, null)) rest.remove();
}

function morphAttributes(element, model) {
  for (const { name } of [...element.attributes]) {
    if (!model.hasAttribute(name)) element.removeAttribute(name);
  }
  for (const { name, value } of [...model.attributes]) {
    if (element.getAttribute(name) !== value) element.setAttribute(name, value);
  }
}

/** Replaces the whole content, keeping the elements that can stay. */
export function applyFull(element, html) {
  morph(element, parse(element, html));
}

/** Runs a change of the page, and puts focus and selection back where they were. */
export function keepingFocus(change) {
  const active = document.activeElement;
  const { selectionStart, selectionEnd, selectionDirection } = active ?? {};
  change();
  if (active === null || active === document.activeElement || !active.isConnected) return;
  active.focus({ preventScroll: true });
  // Inputs that hold no text have no selection.
  if (typeof selectionStart === 'number') {
    active.setSelectionRange(selectionStart, selectionEnd, selectionDirection);
  }
}
