// Results lead to the words that were searched for, and those for students come before those for teachers.

var Scorer = {
  score: ([page, , , , score]) => (page.startsWith("exercises/") ? score - 20 : score),
  // The rest is Sphinx's own.
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};

// Pages opened from disk may fetch no other page, so there is nothing to quote from.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

{
  const asked = new URLSearchParams(location.search).get("q")?.trim() ?? "";
  const texts = [...new Set([asked, ...asked.split(/\s+/)])].filter(Boolean);
  const place = `#:~:${texts.map((text) => `text=${encodeURIComponent(text).replaceAll("-", "%2D")}`).join("&")}`;
  const lead = () => {
    for (const link of document.querySelectorAll("#search-results li a")) {
      if (texts.length && !link.getAttribute("href").includes("#")) link.setAttribute("href", link.getAttribute("href") + place);
    }
  };
  new MutationObserver(lead).observe(document.getElementById("search-results"), { childList: true, subtree: true });
}

// A word that no page has is searched for as the most frequent word that differs in one letter or in the order of two.
document.addEventListener("DOMContentLoaded", () => {
  const query = Search.query;
  const letters = "abcdefghijklmnopqrstuvwxyz";
  const alike = function* (word) {
    for (let i = 0; i <= word.length; i++) {
      const [left, right] = [word.slice(0, i), word.slice(i)];
      if (right) yield left + right.slice(1);
      if (right.length > 1) yield left + right[1] + right[0] + right.slice(2);
      for (const letter of letters) {
        yield left + letter + right;
        if (right) yield left + letter + right.slice(1);
      }
    }
  };
  const corrected = (word) => {
    const { terms, titleterms } = Search._index;
    const stemmer = new Stemmer();
    const pages = (one) => [terms, titleterms].flatMap((of) => (Object.hasOwn(of, one) ? of[one] : [])).length;
    const known = [terms, titleterms].some((of) => Object.keys(of).some((term) => term.includes(stemmer.stemWord(word))));
    if (known || !/^[a-z]{4,}$/.test(word)) return word;
    const others = [...alike(word)].map((other) => [pages(stemmer.stemWord(other)), other]);
    const [most, best] = others.reduce((a, b) => (b[0] > a[0] ? b : a));
    return most ? best : word;
  };
  Search.query = (text) => query(text.toLowerCase().replace(/[a-z]+/g, corrected));
});
