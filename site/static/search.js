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
