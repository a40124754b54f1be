"""Whether what stands in a sentence is stated by it: not denied, doubted, asked or another's."""

import re
from functools import lru_cache

from verifiers.extraction.context.wording import (
    DOUBT,
    NEGATION,
    NOT_SAID,
    QUESTION,
    REJECTED,
    WHOLE,
    WRONG,
    changed,
    listed,
)
from verifiers.grammar.vocabulary import words

NEAR = 300
SENTENCE_BREAK = re.compile(r"[.!?;](?<!e\.g\.)(?<!i\.e\.)(?=\s)|[。！？；]|\n(?!\s*(?:\\\[|\$\$))")
LEAD_IN = ' \t\n$*_`:([{}“"\\'
CLAUSE_BREAK = re.compile(
    r"[,，、—–](?!\d)|\b(?:but|so|hence|thus|therefore|then|that|which|because|since|while|whereas|"
    r"now|"
    r"instead|and|also|donc|mais|also|pero|aber|daher|sondern|но|а|поэтому|значит)\b|而是|所以|因此|但|故|므로|なので",
    re.I,
)
ENDS_CLAUSE = re.compile(
    r"[,，;；—–](?!\d)|\(|\b(?:but|so|hence|thus|therefore|because|since|while|whereas|which|that|"
    r"who|where|when|"
    r"with|for|if|as|by|and|among|in|of|after|et|y|e|und|и|а|en|i|og|och|ja|ve)\b|而不|而非|但",
    re.I,
)
DENIES_NEXT = re.compile(
    r"(?:\b(?:not|never|cannot|nor|neither|rather than|instead of|un)|n['’]t)(?:\s+(?:be|equals?|"
    r"to|simply|just|"
    r"exactly|the|your|my|answer|actually|really|in|fact|even|is|it|value|of|a|an|correct|right|"
    r"final|option|choice))*[\s:$*\\(\[{=]*$",
    re.I,
)
DENIES_CLAUSE = re.compile(
    r"\b(?:by no means|in no way|under no circumstances|far from|anything but|neither|no longer)\b"
    r"|(?:\b(?:not|never|cannot|hardly|longer|refuse to|unable to)|n['’]t)\s+(?:\w+\s+){0,2}"
    r"(?:believe|think|claim|say|accept|agree|conclude|mean|guarantee|trust|know|sure|certain|"
    r"clear|convinced|suppose)\b"
    r"|\b(?:doubt|deny|denies|denied|reject\w*|disagree\w*|disput\w+|mistaken\w*|ignore|"
    r"disregard|forget)\b"
    r"|\b(?:half|twice|double|triple|(?:negative|opposite|square|root|cube|reciprocal|inverse|"
    r"digits?|multiple|part|half|factor)\s+of)"
    r"\s+(?:of\s+)?(?:the|my|our|your)\s+(?:\w+\s+)?(?:answer|result|solution)\b",
    re.I,
)
CONCLUDED = re.compile(r",\s+(?:so|hence|thus|therefore|leaving)\b", re.I)
STEP_NEXT = re.compile(
    r"(?:^\W*(?:take|(?:we\s+)?(?:start|begin)\s+(?:from|with))|(?:^|\b(?:we|now|then|to)\s)\W*(?:subtract|add|round|replace|"
    r"change))\s*$|"
    r"\b(?:(?:add|subtract)\s+\S+\s+(?:to|from)|multiply|divide|halve|discard|assume that)\s*$|"
    r"\bassume\b[^.;,]*$|\bnaive\b[^.;,]*$|\bwithout\b[^.;]*\bwould be\s*$|\bsystem wants\s*$",
    re.I,
)
SUPPOSES = re.compile(
    r"\b(?:suppose|supposing|assume|assuming|imagine|pretend|if|whether|unless|hypothetically|"
    r"had|say)\b[^.;,]*$",
    re.I,
)
SUPPOSED = re.compile(
    r"^\W*(?:assuming|suppose|supposing|if|had|were|pretend)\b.*\b(?:answer|result)\s+would\b",
    re.I,
)
SOURCE = (
    r"(?:(?:the|my|your|some|a|an|this|his|her)\s+)?(?:\w+\s+)?(?:book|key|manual|teacher|textbook|calculator|"
    r"solutions?|friend|classmate|internet|website|source|sources|wikipedia|him|her|them|some|people|students|experts?|"
    r"grader|answer|reference|chatgpt|gpt|sheet|others|many|online)"
)
OWN_VOICE = (
    r"(?:I|we|who|this|that|it|which|also|then|theorem|law|formula|rule|identity|lemma|inequality|definition|problem|"
    r"question|statement|equation|condition)\b"
)
OTHERS_SAY = re.compile(
    r"\b(?:some|someone|somebody|others?|many|most|every(?:one|body)|any(?:one|body)|nobody|"
    r"people|students?|you|he|she|they|user|teacher|professor|friend|"
    r"book|key|textbook|grader|reference|prompt|problem|question|assistant|calculator|solution|"
    r"expert|one|site|internet)\s+"
    r"(?:(?:key|manual|sheet|might|may|would|could|can|will|often|also|first|once|at|has|have|"
    r"had)\s+){0,2}"
    r"(?:says?|said|claims?|claimed|thinks?|thought|believes?|believed|expects?|expected|states?|"
    r"stated|asserts?|writes?|"
    r"wrote|suggests?|suggested|argues?|guess(?:es|ed)?|reports?|insists?|tempted|answered|"
    r"asks? (?:whether|if)|"
    r"asked (?:whether|if)|marked?)\b[^.;,]*$"
    r"|\b(?:book|key|textbook|grader|checker|reference|calculator|tool|output|print-?out|screen|"
    r"log|console)\s+(?:gives|shows|has|prints|is|wants|reads)\b[^.;,]*$"
    r"|\b(?:output|result|reply|answer|value)\s+(?:of|from)\s+(?:the|my|a|this)\s+(?:tool|"
    r"program|code|calculator|script|model|assistant|user|grader)\b[^.;]*$"
    r"|\b(?:expected|reference|gold|official|ground[- ]truth|backup|user['’]s|student['’]s|"
    r"textbook['’]s|book['’]s|model|sample|target)"
    r"[\s_]+(?:answer|solution|value|result)\b[^.;,]*$"
    rf"|\baccording to\s+{SOURCE}\b[^.;,]*,?[^.;,]*$"
    rf"|\b(?!{OWN_VOICE})[a-z]\w*\s+(?:(?:also|once|would|might|will|had)\s+)?(?:says|said|claims|claimed|"
    r"insists|insisted|believes|believed|guesses|guessed|suggests|suggested)(?:\s+that)?(?:\s+\w+){0,4}[\s:,$*\\(\"“]*$"
    r"|\b(?:they|people|graders?|system)\s+wants?\b[^.;,]*$"
    r"|\b(?:many|some|most|people|students?|beginners|others)\s+(?:\w+\s+){0,2}(?:answer|put|pick|choose|get|write|give)\b[^.;,]*$"
    r"|\b(?:my|your|another|earlier|previous)\s+(?:\w+\s+)?(?:classmate|friend|teacher|tutor|colleague|brother|"
    r"sister|attempt|try|solver|model|partner|professor)\s+(?:got|gave|gives|found|obtained)\b[^.;,]*$"
    r"|\b(?!(?:here|that|it|what|let|there|question|problem|today|who|exercise|puzzle)['’]s)[a-z]+['’]s"
    r"\s+(?:\w+\s+)?(?:answer|guess|claim|reply|output)\b[^.;,]*$"
    r"|\b(?:nobody|no one|no-one)\b[^.;,]*$|\bimpossible\s+to\s+(?:get|have|reach|obtain)\b[^.;,]*$"
    r"|\byour\b[^.;]*\b(?:as|in|within|inside|like|form|format)[\s:]*[$*\\(\[]*$"
    r"|\bshould\s+(?:be\s+(?:written|given|formatted|presented)|look)\b[^.;]*$"
    r"|\b(?:for\s+(?:instance|example)|e\.g|example|sample|template|format|placeholder)\b[\s.,:]*[$*\\(\[]*$"
    r"|\b(?:in\s+general|generally|more\s+generally),[^.;]*$|\bsupposed\s+to\s+be\b[^.;,]*$"
    r"|\bI\s+(?:thought|first\b|initially|originally|used\s+to|assumed|guessed)\b[^.;,]*$"
    r"|\b(?:we|I)\s+(?:are|were|was|am)\s+told\b[^.;]*$"
    r"|\bin\s+(?:the|an?|another|our|this)\s+(?:example|sample|template|(?:similar|different|other|previous|old|original|"
    r"simpler|related)\s+(?:problem|version|question|case|exercise))\b[^.;]*$"
    r"|\b(?:first|second|previous|last|intermediate)\s+step\s+(?:gives|yields|is)\b[^.;,]*$"
    r"|\bstep\s+\d+\s+(?:gives|yields|is)\b[^.;,]*$"
    r"|\b(?:rul\w+\s+out|cross\w*\s+out|eliminat\w+|exclud\w+|given)\s*[:,]?\s*(?:[a-z]\s*=\s*|option\s+)?[$*\\(]*$"
    r"|^\W*(?:at\s+first(?:\s+\w+)?|had\b[^.;,]*|naively|superficially|ignoring\b[^.;,]*|without\b[^.;,]*),\s*[$*\\(]*$"
    r"|\b(?:mark|accept|output|grade)\s*[$*\\(\[]*$|\blet\s+\S{1,12}\s*(?:=|be)[\s$*\\(\[]*$",
    re.I,
)
OFFERS_NEXT = re.compile(
    r"\b(?:could|might|may|can)\s+(?:\w+\s+)?(?:be|equal)(?:\s+(?:the|as|high|low|answer|just|"
    r"either))*[\s:$*\\(\[{]*$",
    re.I,
)
WRONG_BEFORE = re.compile(
    r"\b(?:wrong|incorrect|false|mistaken|erroneous|naive|tempting|invalid|bogus|flawed|rejected|"
    r"(?:un)?tempting|trap|distractor)"
    r"\s+(?:\w+\s+){0,2}(?:answer|result|value|solution|guess|claim|choice|option|"
    r"conclusion)\b[^.;,]*$"
    r"|\b(?:previous|old|initial|earlier|tentative)\s+(?:answer|guess|attempt|"
    r"estimate)\b[^.;,]*$|\bfirst\s+guess\b[^.;,]*$"
    r"|\b(?:common|typical|usual|frequent|tempting|classic|easy|a|my|your|their)\s+(?:mistake|"
    r"error|trap|misconception|pitfall|typo)"
    r"(?:\s+here)?(?:\s*:|\s+(?:is|was|would|leads?|gives?|to)\b)[^.;]*$|\b(?:mistakenly|wrongly|"
    r"incorrectly|erroneously|tempted)\b[^.;,]*$",
    re.I,
)
DENIED_AFTER = re.compile(
    r"[\s$)\\\]*_\"'”}]*(?:"
    r"(?:is|are|was|were|would\s+be|seems?|looks?|can|could|does|do|did|must|has|have|will|"
    r"should|gets?|got|turned out|turns out|appears?)"
    r"(?:(?:n['’]t\b|\s+not\b|\s+never\b)(?!\s+(?:(?:a|an|the)\s+)?(?:divisible|"
    r"prime|integer\s+multiple|hard|difficult|easy|exceed\w*|depend\w*|surprising|multiple|perfect|"
    r"negative|composite|even|odd|unique|zero|rational|positive|an?\s+(?:integer|prime|perfect))\b)|\s+(?:to\s+)?(?:be\s+)?(?:\w+ly\s+)?(?:wrong|incorrect|"
    r"false|rejected|mistaken|invalid|inadmissible|nonsense|"
    r"impossible(?!\s+to)|ruled\s+out|excluded|too\s+(?:small|large|big|low|high|much|many|few)|"
    r"(?:(?:just|only|merely|simply)\s+)?(?:an?|the|my|our|his|one)\s+(?:\w+\s+){0,2}(?:mistake|error|trap|distractor|"
    r"wrong|typo|guess|bound|example|template|placeholder|part|step|estimate|joke)\b|given\b|how\b|close\b|"
    r"(?:\w+\s+)?off\b|almost|nearly|tempting|correct\s+for\b|(?:been\s+)?(?:ruled|crossed)\s+out|"
    r"no\s+longer|unlikely|disproved|refuted|out\b|a\s+lie|a\s+guess|just\s+a\s+guess|only\s+a|"
    r"the\s+wrong|what\s+(?:most|some|many|you(?!\s+get)|they|he|she|one|people|I\s+would|"
    r"the(?!\s+(?:problem|question)\s+(?:asks?|asked|wants?|needs?|requires?|is\s+asking)))|extraneous))"
    r"|\s*[(\[]\s*(?:not|draft|tentative|unverified|incorrect|rough)\b"
    r"|,?\s*(?:maybe|perhaps|possibly|probably\s+(?:wrong|not)|I\s+(?:guess|suppose))\b"
    r"|,?\s*(?:but|however),?\s+(?:negative|doubled|squared|halved|with|in|(?:this|that|it)\s+(?:ignores|misses|overlooks|"
    r"forgets|overcounts|undercounts|assumes))\b"
    r"|[^.\n]{0,80}\bwhich\s+(?:is\s+(?:false|wrong|incorrect|impossible|absurd|a\s+contradiction)|contradicts|can['’]t|cannot|"
    r"violates)\b|,?\s*if\s+(?:you|one|we)\s+(?:ask|believe|trust|ignore|forget)\b|\s*by\s+(?:mistake|accident)\b"
    r"|\s*in\s+(?:some|many|most|other)\b|\s*(?:out\s+of|in|per|of)\s+\$?\d{1,3}\W*$"
    r"|,?\s*but\s+(?:I|we)\s+(?:could|can|do|did)(?:n['’]t|\s?not)\b"
    rf"|,?\s*according\s+to\s+{SOURCE}\b|,?\s*(?:says|said)\b"
    r"|,?\s*(?:they|he|she|people|some|others|you)\s+(?:claim|say|think|believe|said)\w*\b"
    r"|\s*[—–,-]+\s*just\s+kidding|\s*\((?:typo|wrong|incorrect)"
    r"|\(\s*(?:this is )?(?:an? |not )?(?:placeholder|sure|random|guess)\b"
    r"|,?\s*(?:but\s+(?:it|this|that)|which)\s+(?:fails|overcounts|undercounts)\b"
    r"|,?\s*which\s+(?:is|was|would\s+be)\s+(?:wrong|incorrect|false|impossible|absurd|"
    r"not\s+(?:right|correct|possible|the\s+answer))"
    r"|(?:cannot|can['’]t)\s+(?:be\s+(?:right|correct|true|accepted|it|the)|hold|work)\b|"
    r"\bfails\b|\bnever\b|\bNOT\b|\(?\s*(?:wrong|incorrect|false|rejected|mistaken|invalid)\b(?!\s+\w+s\b))",
    re.I,
)
WRONG_THINGS = re.compile(r"[\s$]*(?:wrong|incorrect|false)\s+[a-z]+s\b", re.I)
NEXT_DENIES = re.compile(
    r"[\s$)\\\]*_\"'”}.,!?…:;—–→-]*(?:"
    r"(?:no|nope|not|wrong|false|incorrect|rejected|contradiction)\b(?=\s*(?:[.!,;]|$|\n|quite|so|right|really|"
    r"at all))"
    r"|(?:(?:but|though|although|however|wait|well|hmm+|oh|sorry|actually|so|yet|and|"
    r"hold on|on (?:second thought|reflection)|come to think of it)\b[,.\s]*)*(?:this|"
    r"that|it|which|the\s+(?:above|box|answer|result)(?:\s+(?:above|given))?)"
    r"(?:\s+(?:answer|value|result|box|one|number))?(?:['’]s|\s+(?:is|was|cannot|can['’]t|can|"
    r"must|does|did|has|seems|looks|isn['’]t|wasn['’]t|doesn['’]t))\s*"
    r"(?:(?:to|be|look|seem|sound|feel|clearly|obviously|surely|simply|actually|also|just|still|of course|a|an|not|"
    r"the|been|get|my|mine)\s+)*"
    r"(?:wrong|incorrect|false|mistake|error|contradiction|nonsense|impossible|rejected|invalid|correct|right|"
    r"guess|typo|joke|hold|work|fit|answer)\b(?!\s+(?:to|that|for)\b))",
    re.I,
)
POSITIVE = re.compile(r"\b(?:correct|right|hold|work|fit|answer)$", re.I)
FITS_TOO = re.compile(
    r"[$)\]*_]*(?=[^.\n]*(?:[\d\\]|\b[A-J]\b))(?![^.\n]*\b(?:fails?|rejected|extraneous)\b)"
    r"[^.\n]{0,40}?\b(?:but|though|although|and|or|while)\b[^.\n]{1,60}?\b(?:too|as well|also|"
    r"equally|possible|instead|either)\b",
    re.I,
)
ONLY_IF = re.compile(
    r"[\s$)\\\]*_}(]*(?:only\s+(?:when|if|for)\b|unless(?!\s+(?:otherwise|noted|stated|specified))|"
    r"depending|depends|"
    r"if\b[^.\n]{1,160}\b(?:else|otherwise|and\b[^.\n]{1,80}\bif)|provided)\b"
    r"|[^.\n]{0,120}\b(?:(?<!stated )(?<!noted )otherwise|unless)\b"
    r"(?!\s+(?:otherwise|we|noted|stated|specified|said))",
    re.I,
)


CASES = re.compile(
    r"[\s$)\\\]*_}.,;]*or\s+(?:is|was|should|could)\s+it\b|"
    r"[\s$)\\\]*_}.,;]*(?:but|however),?\s+\$?-?\d[\w./]*\$?\s+(?:also|is\s+also|works|fits|could|might|is\s+possible)\b|"
    r"[\s$)\\\]*_}]*(?:→|[=-]>|⇒|⟹|\\(?:to|rightarrow|Rightarrow)|(?:,\s+)?(?:becomes|(?:turns|changes|rounds|rounded|is\s+rounded)"
    r"(?:\s+up|\s+down)?(?:\s+in)?(?:to|,?\s+is|\s+to)))\s*\$?-?\d|"
    r"[\s$)\\\]*_}(]*(?:if|when|for|in|at)\b[^.\n]{1,100}?(?:[,;]|\b(?:and|but|while|or|else|otherwise)\b)\s*"
    r"(?:it\s+is\s+|otherwise\s+)?\$?-?\d[\w./]*\$?\s*(?:if|when|for|in\s+the|at|otherwise|else)\b"
    rf"|[^\n]{{0,60}}[;,.]\s*(?:{listed('otherwise else si_no sinon sonst andernfalls иначе altrimenti senão anders')}|否则)"
    r"\W{0,3}(?:it is |es |c'est )?\W{0,3}\d",
    re.I,
)
ANOTHERS_LABEL = words(
    "draft tentative guess estimate expected previously student prompt first-try approximate "
    "wrong false incorrect bad previous initial old lower upper bound bounds gold expected "
    "reference student user model sample example trap rejected placeholder dummy error warning "
    "question timeouterror key truth ground target candidates candidate options input intermediate partial subtotal problem exercise version attempt hint page id index seed limit rating confidence timeout note step case line"
)
LABEL_BEFORE = re.compile(r"\W*((?:[\w'-]+\s){0,3}[\w'-]+)\s*:[\s$*_\\(\[{]*")
# Words of which one stands in whatever the patterns above find.
ANY_DENIES = words(
    "not never cannot nor neither rather instead un under far anything no hardly longer refuse "
    "unable doubt deny denies denied disagree mistaken ignore disregard forget half twice "
    "double triple negative opposite square root cube reciprocal inverse digit digits multiple "
    "part factor suppose supposing assume assuming imagine pretend if whether unless "
    "hypothetically had say were said says claim claims claimed think thinks thought believe "
    "believes believed expect expects expected state states stated assert asserts write writes "
    "wrote suggest suggests suggested argue argues guess guesses guessed report reports insist "
    "insists tempted answered ask asks asked marked mark reads read gives shows prints wants "
    "reference gold official truth backup student textbook book model sample target key "
    "according output result reply wrong incorrect false erroneous naive tempting invalid bogus "
    "flawed rejected trap distractor previous old initial earlier tentative first common "
    "typical usual frequent classic mistakenly wrongly incorrectly erroneously rejecting reject "
    "rejects disputed dispute disputes nobody one impossible your should instance example e sample template format "
    "placeholder accept output print grade let they people system grader graders wants want insists insisted "
    "got gave found obtained many some most beginners others s solution sources general generally supposed thought initially "
    "originally used assumed told "
    "similar different other simpler related step ruled ruling rule out crossed cross eliminate eliminated "
    "exclude excluded excludes given naively superficially ignoring without "
)


def sentence_before(text: str, start: int) -> str:
    """What the sentence says before a place."""
    before = text[max(0, start - NEAR) : start].rstrip(LEAD_IN)
    last = 0
    for match in SENTENCE_BREAK.finditer(before):
        last = match.end()
    return before[last:]


def sentence_after(text: str, end: int) -> str:
    """What the sentence says after a place."""
    rest = text[end : end + NEAR]
    match = SENTENCE_BREAK.search(rest)
    return rest[: match.end()] if match else rest


def last_clause(before: str) -> str:
    last = 0
    for match in CLAUSE_BREAK.finditer(before):
        last = match.end()
    return before[last:]


def not_stated(text: str, start: int, end: int) -> bool:
    """Whether the words around text[start:end] deny it, ask it or give it to others."""
    if denied_before(sentence_before(text, start)) or denied_after(sentence_after(text, end)):
        return True
    line = text[text.rfind("\n", 0, start) + 1 : start]
    label = LABEL_BEFORE.fullmatch(line) if ":" in line and len(line) < 60 else None
    if label and not ANOTHERS_LABEL.isdisjoint(label[1].lower().split()):
        return True
    return CASES.match(text, end) is not None


def only_offered(text: str, start: int) -> bool:
    """Whether the words before a place doubt what stands there."""
    return doubted(sentence_before(text, start))


@lru_cache(maxsize=4096)
def denied_before(before: str) -> bool:
    """Whether the sentence up to a value takes it away: "it is not", "some say"."""
    if not before.strip():
        return False
    clause = last_clause(before)
    if NEGATION.search(clause) or REJECTED.search(clause) or NOT_SAID.search(before):
        return True
    if STEP_NEXT.search(before):
        return True
    words = before.lower()
    if ANY_DENIES.isdisjoint(WHOLE.findall(words)) and "n't" not in words and "n’t" not in words:
        return False
    concluded = CONCLUDED.split(before)[-1]
    if DENIES_NEXT.search(before) or DENIES_CLAUSE.search(concluded):
        return True
    if SUPPOSES.search(clause) or SUPPOSED.search(before):
        return True
    return bool(OTHERS_SAY.search(before) or WRONG_BEFORE.search(before))


@lru_cache(maxsize=4096)
def doubted(before: str) -> bool:
    """Whether the sentence up to a value only offers it: "perhaps", "it could be"."""
    offered = DOUBT.search(last_clause(before)) or DOUBT.ends(before.rstrip(" ,，、$*"))
    return offered or bool("be" in before and OFFERS_NEXT.search(before))


@lru_cache(maxsize=4096)
def denied_after(after: str) -> bool:
    """Whether the sentence after a value takes it away: "is wrong", "? No"."""
    if not after.strip(" .,;!$)\\]}*\n"):
        return False
    if DENIED_AFTER.match(after) or QUESTION.search(after):
        return True
    if FITS_TOO.match(after) or ONLY_IF.match(after):
        return True
    if WRONG_THINGS.match(after):
        return False
    clause = after.lstrip(" $—–-)\\]")
    if match := ENDS_CLAUSE.search(clause):
        clause = clause[: match.start()]
    return any(words.search(clause) for words in (NEGATION, WRONG, REJECTED)) or bool(
        not after.isascii() and (DOUBT.search(clause) or NOT_SAID.search(clause))
    )


def taken_back(rest: str) -> int:
    """Where "no", "that is wrong" or the like ends that begins what follows an answer, or 0."""
    denial = NEXT_DENIES.match(rest)
    return denial.end() if denial and not _affirms(denial[0]) else 0


def _affirms(said: str) -> bool:
    """ "It is right" affirms, "it is not right" does not."""
    negative = re.search(r"\bnot\b|\bcannot\b|n['’]t", said, re.I)
    return bool(POSITIVE.search(said)) and not negative


def changed_beside(text: str, start: int, end: int) -> bool:
    """Whether words right beside a value make another of it."""
    return changed(text[max(0, start - 80) : start], text[end : end + 60])
