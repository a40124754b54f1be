"""The words and signs of the grammar, as data."""


def words(text: str) -> frozenset[str]:
    """A set of words, written as one string."""
    return frozenset(text.split())


UNICODE = {
    "−": "-", "–": "-", "—": "-", "‐": "-", "‑": "-", "﹣": "-", "－": "-", "＋": "+",
    "×": r"\times ", "⋅": r"\cdot ", "·": r"\cdot ", "∙": r"\cdot ", "•": r"\cdot ", "∗": "*",
    "÷": r"\div ", "∕": "/", "⁄": "/", "／": "/",
    "±": r"\pm ", "∓": r"\mp ", "≤": r"\le ", "≥": r"\ge ", "⩽": r"\le ", "⩾": r"\ge ",
    "≦": r"\le ", "≧": r"\ge ", "≠": r"\ne ", "≈": r"\approx ", "≡": r"\equiv ", "＝": "=",
    "＜": "<", "＞": ">", "∞": r"\infty ", "√": r"\sqrt ", "°": r"^\circ ", "º": r"^\circ ",
    "∪": r"\cup ", "∩": r"\cap ", "∈": r"\in ", "∅": r"\emptyset ", "∖": r"\setminus ",
    "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}",
    "ℂ": r"\mathbb{C}", "⌊": r"\lfloor ", "⌋": r"\rfloor ", "⌈": r"\lceil ", "⌉": r"\rceil ",
    "⟨": r"\langle ", "⟩": r"\rangle ", "∣": "|", "′": "'", "’": "'", "“": '"', "”": '"',
    "（": "(", "）": ")", "［": "[", "］": "]", "，": ", ", "；": "; ", "：": ":", "％": "%",
    "｛": r"\{", "｝": r"\}", "、": ", ", "。": ".", "…": r"\ldots ", "⋯": r"\ldots ",
    "∠": r"\angle ", "△": r"\triangle ", "∑": r"\sum ", "∏": r"\prod ", "∫": r"\int ",
    "½": r"\frac{1}{2}", "⅓": r"\frac{1}{3}", "⅔": r"\frac{2}{3}", "¼": r"\frac{1}{4}",
    "¾": r"\frac{3}{4}", "⅕": r"\frac{1}{5}", "⅖": r"\frac{2}{5}", "⅗": r"\frac{3}{5}",
    "⅘": r"\frac{4}{5}", "⅙": r"\frac{1}{6}", "⅚": r"\frac{5}{6}", "⅛": r"\frac{1}{8}",
    "⅜": r"\frac{3}{8}", "⅝": r"\frac{5}{8}", "⅞": r"\frac{7}{8}", "⅐": r"\frac{1}{7}",
    "⅑": r"\frac{1}{9}", "⅒": r"\frac{1}{10}", "∛": r"\sqrt[3]", "∜": r"\sqrt[4]",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "δ": r"\delta ", "ε": r"\epsilon ",
    "θ": r"\theta ", "λ": r"\lambda ", "μ": r"\mu ", "π": r"\pi ", "ρ": r"\rho ",
    "σ": r"\sigma ", "τ": r"\tau ", "φ": r"\phi ", "ϕ": r"\phi ", "ω": r"\omega ",
    "Δ": r"\Delta ", "Ω": r"\Omega ", "ζ": r"\zeta ", "η": r"\eta ", "κ": r"\kappa ",
    "ξ": r"\xi ", "χ": r"\chi ", "ψ": r"\psi ", "ν": r"\nu ", "Γ": r"\Gamma ",
    "Θ": r"\Theta ", "Λ": r"\Lambda ", "Σ": r"\Sigma ", "Φ": r"\Phi ", "Ψ": r"\Psi ",
    "ħ": r"\hbar ", "ℓ": r"\ell ", "∂": r"\partial ", "∇": r"\nabla ", "∆": r"\Delta ",
    "ϵ": r"\epsilon ", "ϑ": r"\theta ", "″": "''", "⋃": r"\cup ", "⋂": r"\cap ", "→": r"\to ", "∨": r"\lor ", "∧": r"\land ", "或": r"\text{ or }",
}  # fmt: skip
SUPERSCRIPTS = dict(zip("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n", strict=True))
SUBSCRIPTS = dict(zip("₀₁₂₃₄₅₆₇₈₉₊₋ₙₖᵢⱼₘₓ", "0123456789+-nkijmx", strict=True))

SPACING = words(", ; : ! > quad qquad thinspace enspace space hfill") | {" ", "\n", "\t"}
SILENT = words(
    "left right big Big bigg Bigg bigl bigr Bigl Bigr biggl biggr Biggl Biggr middle displaystyle "
    "textstyle scriptstyle limits nolimits rm bf it sf tt normalsize large Large LARGE small "
    "huge Huge tiny small footnotesize scriptsize mathstrut strut noindent centering mathord "
    "mathbin boldmath therefore because ( ) [ ] hline"
)
SKIPPED_WITH_GROUP = words(
    "color hspace vspace phantom hphantom vphantom label tag textcolor colorbox definecolor"
)
TEXT_GROUPS = words(
    "text textbf textit textnormal textrm textsf texttt mbox hbox emph textup mathrm mathbf mathit "
    "mathsf mathtt mathnormal operatorname boldsymbol bm pmb underline boxed fbox ensuremath "
    "framebox mathop mathcal mathscr mathfrak vec overrightarrow hat widehat tilde"
)
MATH_GROUPS = words(
    "boxed fbox underline ensuremath boldsymbol bm pmb vec overrightarrow hat widehat tilde "
    "mathbf mathit mathcal mathscr mathfrak framebox"
)

RELATIONS = {
    "=": "=", "<": "<", ">": ">", "le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=",
    "geq": ">=", "geqslant": ">=", "lt": "<", "gt": ">", "ne": "!=", "neq": "!=",
    "approx": "~", "in": "in", "equiv": "==", "leqq": "<=", "geqq": ">=",
    "coloneqq": "=", "simeq": "~", "doteq": "~",
}  # fmt: skip
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "!=": "!="}
CONNECTIVES = {"and": "and", "or": "or", "land": "and", "wedge": "and", "lor": "or", "vee": "or"}
# Commands that cannot begin a factor of a product.
NOT_FACTORS = RELATIONS.keys() | CONNECTIVES.keys() | words(
    "pm mp cdot times div ast } rbrace rvert rfloor rceil rangle mid colon pmod \\ to rightarrow "
    "implies circ vert choose over cup cap setminus backslash"
)  # fmt: skip

FUNCTIONS = {
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc",
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "asin": "asin", "acos": "acos",
    "atan": "atan", "arccot": "acot", "arcsec": "asec", "arccsc": "acsc", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "coth": "coth", "arcsinh": "asinh", "arccosh": "acosh",
    "arctanh": "atanh", "ln": "ln", "log": "log", "lg": "lg", "exp": "exp", "cosec": "csc",
    "tg": "tan", "ctg": "cot", "arctg": "atan", "sgn": "sgn", "arsinh": "asinh",
    "arcosh": "acosh", "artanh": "atanh", "Re": "re", "Im": "im", "cis": "cis", "erf": "erf",
    "Gamma": "gamma",
}  # fmt: skip
INVERSES = {
    "sin": "asin", "cos": "acos", "tan": "atan", "cot": "acot", "sec": "asec", "csc": "acsc",
    "sinh": "asinh", "cosh": "acosh", "tanh": "atanh",
}  # fmt: skip
LISTED_FUNCTIONS = {"max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm"}
OPERATORS = words("det deg dim Pr rank ker")
BIG = words("sum prod int iint iiint oint lim limsup liminf bigcup bigcap")
GREEK = words(
    "alpha beta gamma delta epsilon varepsilon zeta eta theta vartheta iota kappa lambda mu nu xi "
    "rho varrho sigma varsigma tau upsilon phi varphi chi psi omega Delta Theta Lambda Xi "
    "Sigma Upsilon Phi Psi Omega ell hbar Pi partial nabla complement"
)
SYSTEMS = words("cases aligned align gathered gather split equation rcases dcases center")
MATRICES = words(
    "matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix smallmatrix psmallmatrix bsmallmatrix array"
)
FILLERS = words(
    "either both for about exactly only approximately roughly equals therefore thus hence so"
)
NOT_UNITS = words(
    "or and not if for when where except but is are be to with without unless whenever while "
    "maybe either neither nor plus minus times divided all any no none both because since than "
    "then else mod over between through until squared cubed doubled tripled halved factorial "
    "more less fewer prime tens something somewhat wrong incorrect false missing increased decreased reduced raised twice thrice backwards "
    "reversed maximum minimum fails random unsure tempting nicht salah et unlikely"
)
NUMBER_WORDS = {
    "zero": 0, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7,
    "eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "thirteen": 13,
    "fourteen": 14, "fifteen": 15, "sixteen": 16, "seventeen": 17, "eighteen": 18,
    "nineteen": 19, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60,
    "seventy": 70, "eighty": 80, "ninety": 90,
}  # fmt: skip
_COUNTED = [
    "cero uno dos tres cuatro cinco seis siete ocho nueve diez",
    "zéro un deux trois quatre cinq six sept huit neuf dix",
    "null eins zwei drei vier fünf sechs sieben acht neun zehn",
    "zero uno due tre quattro cinque sei sette otto nove dieci",
    "zero um dois três quatro cinco seis sete oito nove dez",
    "nul een twee drie vier vijf zes zeven acht negen tien",
    "ноль один два три четыре пять шесть семь восемь девять десять",
    "零 一 二 三 四 五 六 七 八 九 十",
    "영 하나 둘 셋 넷 다섯 여섯 일곱 여덟 아홉 열",
]
FOREIGN_NUMBERS = {
    word: str(value)
    for line in _COUNTED
    for value, word in enumerate(line.split())
    if word != "null"
}
FOREIGN_NUMBERS |= dict.fromkeys(
    [
        "ein halb",
        "ein halbes",
        "un demi",
        "un medio",
        "un mezzo",
        "um meio",
        "половина",
        "一半",
        "二分之一",
        "2分の1",
    ],
    r"\frac{1}{2}",
)
SCALES = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9}
SCALES |= {"trillion": 10**12, "dozen": 12, "score": 20, "lakh": 10**5, "crore": 10**7}
SCALES |= {"tenthousand": 10**4, "hundredmillion": 10**8}
SCALES |= dict.fromkeys(words("hundreds cientos"), 100)
SCALES |= dict.fromkeys(words("thousands mille mil tausend ribu bin tusen tuhat tysiące"), 1000)
SCALES |= dict.fromkeys(
    words("millions millionen millones milioni milyon mln juta miljoen miljoner milion miljoonaa"),
    10**6,
)
SCALES |= dict.fromkeys(words("billions milliards milliarden miliardi milyar mlrd"), 10**9)
SCALES |= dict.fromkeys(words("dozens dutzend douzaines docenas dozzine dozzina"), 12)
# Scale words that are not in ASCII, as words of the table above.
FOREIGN_SCALES = {
    "万": "tenthousand", "萬": "tenthousand", "만": "tenthousand", "亿": "hundredmillion",
    "億": "hundredmillion", "억": "hundredmillion", "百": "hundred", "千": "thousand",
    "打": "dozen", "ダース": "dozen", "млн": "million", "миллиона": "million",
    "миллионов": "million", "тысяч": "thousand", "тысячи": "thousand", "дюжины": "dozen",
    "дюжин": "dozen", "triệu": "million", "nghìn": "thousand", "milhões": "million",
    "millón": "million", "dúzias": "dozen",
}  # fmt: skip
EMPTY_WORDS = {"no solution", "no solutions", "empty set", "the empty set", "no real solutions"}
EMPTY_WORDS |= {"no real solution", "null set"}
REAL_WORDS = {"all real numbers", "all reals", "all real x", "real numbers", "the real numbers"}
REAL_WORDS |= {"all real values", "all real values of x", "the set of all real numbers"}
KNOWN_WORDS = words("yes no odd all any not nor yet red tan east west north south even true")
