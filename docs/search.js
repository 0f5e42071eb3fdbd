// The order of search results: the user guide before the reference, and both before dated logs.
const STANDING = [
  [/^(changelog$|developer\/|measurements\/)/, -4],
  [/^start$/, 12],
  [/^[a-z-]+$/, 9], // the other pages of the user guide
  [/^(tutorials|algorithms|gallery)\//, 6],
];

var Scorer = {
  score: ([docname, title, anchor, descr, score]) => {
    const found = STANDING.find(([pages]) => pages.test(docname));
    return score + (found ? found[1] : 0);
  },
  objNameMatch: 20,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
