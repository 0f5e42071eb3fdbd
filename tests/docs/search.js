// What the search of a built site finds first: node search.js SITE QUERY ... prints {query: page}.
const { readFileSync } = require("fs");
const { join } = require("path");
const vm = require("vm");

const [site, ...queries] = process.argv.slice(2);
const element = { dataset: {}, addEventListener() {} };
const page = {
  document: { readyState: "loading", documentElement: element, addEventListener() {}, getElementById: () => null },
  localStorage: { setItem() {}, getItem: () => null },
  addEventListener() {},
  URLSearchParams,
};
page.window = page;
vm.createContext(page);
const scripts = readFileSync(join(site, "search.html"), "utf8").matchAll(/<script src="([^"?]+)/g);
for (const [, script] of scripts)
  if (/(documentation_options|doctools|sphinx_highlight|searchtools|language_data|searchindex)\.js$/.test(script))
    vm.runInContext(readFileSync(join(site, script), "utf8"), page, script);
vm.runInContext(
  "first = query => (Search._performSearch(...Search._parseQuery(query)).pop() ?? ['nothing'])[0]",
  page,
);
process.stdout.write(JSON.stringify(Object.fromEntries(queries.map((query) => [query, page.first(query)]))));
