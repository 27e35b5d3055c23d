"use strict";
/* Sweeps over a compiled rule, as softpnet/rules/sweeps.py has them, for one example at a time.

A diagram is {order, sizes, edges, labels}: layer i reads concept order[i], and from its node w the value v leads to
node edges[i][w * sizes[order[i]] + v] of the next layer. After the last layer nodes are leaves: the places of the
labels, and one more for assignments of no known label. log p is a list of values per concept. */
const Sweep = (() => {
  const size = (d, layer) => d.sizes[d.order[layer]];
  const width = (d, layer) => (layer < d.order.length ? d.edges[layer].length / size(d, layer) : d.labels.length + 1);

  function logSum(values) {
    const peak = Math.max(...values);
    if (peak === -Infinity) return -Infinity;
    return peak + Math.log(values.reduce((sum, value) => sum + Math.exp(value - peak), 0));
  }

  /* The values of every layer's nodes, from those of the leaves. */
  function backwards(d, logP, leaves, together) {
    const found = [leaves];
    for (let layer = d.order.length - 1; layer >= 0; layer--) {
      const after = found[0], h = size(d, layer), p = logP[d.order[layer]], here = [];
      for (let node = 0; node < width(d, layer); node++) {
        const along = [];
        for (let v = 0; v < h; v++) along.push(p[v] + after[d.edges[layer][node * h + v]]);
        here.push(together(along));
      }
      found.unshift(here);
    }
    return found;
  }

  function accepting(d, leaves) {
    const found = new Array(d.labels.length + 1).fill(-Infinity);
    for (const leaf of leaves) found[leaf] = 0;
    return found;
  }

  /* The leaf of an assignment. */
  function leaf(d, row) {
    return d.order.reduce((node, concept, layer) => d.edges[layer][node * d.sizes[concept] + row[concept]], 0);
  }

  /* log P that the assignment has one of these leaves. */
  function logProb(d, logP, leaves) {
    return backwards(d, logP, accepting(d, leaves), logSum)[0][0];
  }

  /* log P of every leaf, in one sweep forwards. */
  function leafLogProbs(d, logP) {
    let here = [0];
    for (let layer = 0; layer < d.order.length; layer++) {
      const h = size(d, layer), p = logP[d.order[layer]];
      const arriving = Array.from({ length: width(d, layer + 1) }, () => []);
      here.forEach((value, node) => {
        for (let v = 0; v < h; v++) arriving[d.edges[layer][node * h + v]].push(value + p[v]);
      });
      here = arriving.map((values) => (values.length ? logSum(values) : -Infinity));
    }
    return here;
  }

  /* The most probable assignments with one of these leaves, best first: {row, score}. What is added to each prefix is
  the exact best that can follow, so keeping `count` of them loses none of the best. */
  function best(d, logP, leaves, count) {
    const values = backwards(d, logP, accepting(d, leaves), (along) => Math.max(...along));
    let kept = [{ node: 0, score: 0, row: [] }];
    for (let layer = 0; layer < d.order.length; layer++) {
      const h = size(d, layer), concept = d.order[layer], longer = [];
      for (const { node, score, row } of kept) {
        for (let v = 0; v < h; v++) {
          const child = d.edges[layer][node * h + v], own = score + logP[concept][v];
          const bound = own + values[layer + 1][child];
          if (bound > -Infinity) longer.push({ node: child, score: own, bound, row: [...row, v] });
        }
      }
      kept = longer.sort((a, b) => b.bound - a.bound).slice(0, count);
    }
    return kept.map(({ row, score }) => {
      const columns = new Array(row.length);
      row.forEach((value, layer) => { columns[d.order[layer]] = value; });
      return { row: columns, score };
    });
  }

  /* The marginals of p(c|x, y): per concept the probability of each value, given one of these leaves. */
  function marginals(d, logP, leaves) {
    const values = backwards(d, logP, accepting(d, leaves), logSum);
    const found = d.sizes.map((h) => new Array(h).fill(0));
    let passing = [values[0][0] > -Infinity ? 1 : 0];
    for (let layer = 0; layer < d.order.length; layer++) {
      const h = size(d, layer), concept = d.order[layer], next = new Array(width(d, layer + 1)).fill(0);
      passing.forEach((share, node) => {
        if (share === 0) return;
        for (let v = 0; v < h; v++) {
          const child = d.edges[layer][node * h + v];
          const flow = share * Math.exp(logP[concept][v] + values[layer + 1][child] - values[layer][node]);
          found[concept][v] += flow;
          next[child] += flow;
        }
      });
      passing = next;
    }
    return found;
  }

  /* How many assignments have one of these leaves, of those whose concepts have the fixed values; a BigInt. */
  function count(d, fixed, leaves) {
    let after = accepting(d, leaves).map((value) => (value === 0 ? 1n : 0n));
    for (let layer = d.order.length - 1; layer >= 0; layer--) {
      const h = size(d, layer), held = fixed.get(d.order[layer]), here = [];
      for (let node = 0; node < width(d, layer); node++) {
        let sum = 0n;
        for (let v = 0; v < h; v++) if (held === undefined || held === v) sum += after[d.edges[layer][node * h + v]];
        here.push(sum);
      }
      after = here;
    }
    return after[0];
  }

  /* After each layer, the leaves that an assignment can still reach: a list of sorted lists. */
  function possible(d, row) {
    const found = [];
    let node = 0;
    for (let layer = 0; layer < d.order.length; layer++) {
      node = d.edges[layer][node * size(d, layer) + row[d.order[layer]]];
      let front = new Set([node]);
      for (let later = layer + 1; later < d.order.length; later++) {
        const h = size(d, later), next = new Set();
        for (const each of front) for (let v = 0; v < h; v++) next.add(d.edges[later][each * h + v]);
        front = next;
      }
      found.push([...front].sort((a, b) => a - b));
    }
    return found;
  }

  /* log p with the fixed concepts certain. */
  function fix(logP, fixed) {
    return logP.map((p, i) => (fixed.has(i) ? p.map((_, v) => (v === fixed.get(i) ? 0 : -Infinity)) : p));
  }

  return { leaf, logProb, leafLogProbs, best, marginals, count, possible, fix };
})();
