"""Words that deny, doubt, change or join a value, in the languages that responses are written "
"in."""

import re

from verifiers.grammar.vocabulary import words

WHOLE = re.compile(r"[^\W_]+")


def listed(words: str) -> str:
    """The words of a string as one alternative, longest first; `_` stands for a space."""
    by_length = sorted(set(words.split()), key=len, reverse=True)
    return "|".join(re.escape(word).replace("_", r"\s+") for word in by_length)


class Words:
    """A vocabulary: words that stand whole, and pieces of scripts without spaces that may not."""

    def __init__(self, whole: str, anywhere: str = "") -> None:
        known = {word.replace("_", " ").casefold() for word in whole.split()}
        self.single = {word for word in known if WHOLE.fullmatch(word)}
        self.by_first: dict[str, list[str]] = {}
        self.by_last: dict[str, list[str]] = {}
        for phrase in sorted(known - self.single):
            pieces = WHOLE.findall(phrase)
            self.by_first.setdefault(pieces[0], []).append(phrase)
            self.by_last.setdefault(pieces[-1], []).append(phrase)
        self.pieces = tuple(anywhere.replace("_", " ").split())

    def search(self, text: str) -> bool:
        """Whether any of the words stands in a text."""
        text = text.casefold()
        found = set(WHOLE.findall(text))
        if not self.single.isdisjoint(found):
            return True
        for first in self.by_first.keys() & found:
            if any(
                phrase in text and _stands_whole(phrase, text) for phrase in self.by_first[first]
            ):
                return True
        return not text.isascii() and any(piece in text for piece in self.pieces)

    def ends(self, text: str) -> bool:
        """Whether a text ends in one of the words."""
        text = text.casefold()
        last = "".join(WHOLE.findall(text)[-1:])
        if last in self.single and text.endswith(last):
            return True
        phrases = self.by_last.get(last, ())
        if any(text.endswith(phrase) and _stands_whole(phrase, text) for phrase in phrases):
            return True
        return not text.isascii() and text.endswith(self.pieces or ("\0",))

    def begins(self, text: str) -> bool:
        """Whether a text begins with one of the words."""
        text = text.casefold()
        match = WHOLE.match(text)
        first = match[0] if match else ""
        if first in self.single:
            return True
        phrases = self.by_first.get(first, ())
        if any(text.startswith(phrase) and _stands_whole(phrase, text) for phrase in phrases):
            return True
        return not text.isascii() and text.startswith(self.pieces or ("\0",))


def _stands_whole(phrase: str, text: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None


# Joining words: between values they make a list.
OR = (
    "or oder ou o u или либо lub albo of eller tai vagy veya ya_da ή أو یا या অথবা hoặc atau או "
    "sau "
    "nebo або soit"
)
AND = "and und et y e и а oraz en och og ja és ve ile και و और एवं এবং và dan ו și a i та"
JOINT = (
    rf"(?:(?<!\w)(?:{listed(f'{AND} {OR}')})(?!\w)"
    "|和|或者|或|及|与|與|または|と|および|과|와|및|또는|และ|หรือ)"
)
EITHER = re.compile(rf"(?<!\w)(?:{listed(OR)})(?!\w)|或|または|또는|หรือ", re.I)

# Outside English a negation anywhere in the clause counts; English has its own patterns below.
NEGATION = Words(
    "no_es no_son no_sea no_era no_fue no_puede_ser nicht kein keine keinen weder n'est n’est "
    "ne_sont ne_vaut pas "
    "non nunca jamás tampoco não nem не ни нет нельзя nie_jest niet geen inte ikke ei_ole eivät "
    "nem değil değildir "
    "degil aldrig δεν όχι لا ليس ليست ليسا لن غير نیست نہیں नहीं নয় নেই không_phải không bukan "
    "tidak לא אינה אינו "
    "nu_este nu není ні nije",
    "不是 不对 不對 不正确 不正確 并非 並非 不为 不等于 不可能 没有答案 非也 不能 不会 ではない "
    "ではなく ではありません じゃない "
    "でない 아니 아닙 않 ไม่ใช่ ไม่",
)
WRONG = Words(
    "faux fausse falsch fout fel feil forkert väärin zły zła błędna błędny błędne helytelen "
    "yanlış yanlıştır hatalı salah "
    "sai λάθος λανθασμένη خطأ خاطئ خاطئة غلط اشتباه गलत ग़लत ভুল שגוי שגויה טעות errado errada "
    "incorreto incorreta falso falsa incorrecto "
    "incorrecta incorrecte incorrect inexact erroné erroneo erróneo errónea equivocado sbagliato "
    "sbagliata scorretto "
    "unzutreffend inkorrekt неверно неверен неверный неверна неправильно неправильный ошибочно "
    "ошибка ошибочен "
    "by_mistake absurd špatně felaktig felaktigt onjuist wrong mistaken неправилен неправильна",
    "错误 錯誤 错的 錯的 是错 不成立 有误 間違 誤り 틀렸 틀린 틀립 잘못 ผิด",
)
DOUBT = Words(
    "maybe perhaps possibly peut-être vielleicht möglicherweise quizá quizás talvez tal_vez "
    "forse mogelijk misschien "
    "kanske måske kanskje ehkä talán belki ίσως ربما شايد شاید शायद সম্ভবত mungkin אולי možná "
    "возможно наверное может_быть podría "
    "pourrait könnte puede_ser podría_ser poderia potrebbe může może możliwe có_thể có_lẽ "
    "a_lo_mejor "
    "either",
    "可能 也许 也許 或许 或許 大概 かもしれ 恐らく おそらく たぶん 아마 일지도 อาจ บางที",
)
# A value is thrown away, or only said under a condition or by others.
REJECTED = Words(
    "fails exclu exclue exclut rejette rejetons scheidet_aus verwerfen verwerfe descarta "
    "descartamos descarto no_cumple no_satisface está_mal está_incorrecto scartiamo si_scarta "
    "отбрасываем отбросим не_подходит to_nie discard extraneous contradiction",
    "不适 不適 満たさない 満たしません 不合题意 不合題意 不符合 不满足 舍去 만족하지_않",
)
NOT_SAID = Words(
    "serait serais sería serían seria seriam sarebbe wäre wären würde würden бы dirían dirían "
    "diriam direbbero diraient ami_dit freund_sagt amigo_dice amigo_diz amico_dice "
    "друг_говорит allegedly supposedly rumor rumour no_way not_the_case not_true unlikely "
    "intermediate so_far placeholder defaulting",
    "很多人 많은_사람 と答える人 如果 もし 假如 假设 만약 수도_있",
)
QUESTION = re.compile(
    r"[?？؟](?=[\s\"”'’*_)»」$]*$)|吗[?？。.]?\s*$|ですか|ますか|でしょうか|습니까|인가요|일까"
)

# What makes another value of the number beside it: before it (with articles between) or after it.
CHANGES_NEXT = Words(
    "minus plus negative over half twice thrice double triple quadruple root square cube "
    "factorial reciprocal "
    "inverse opposite negation complement multiple multiples divisor divisors factor factors "
    "power powers times "
    "log ln sin cos tan logarithm difference product quotient sum increased decreased raised "
    "to_the squares "
    "thirds quarters fourths fifths third quarter fourth fifth percent divisible_by close_to ends_in ending_in "
    "ends_with starts_with starts_in begins_with exceed different_from differs_from found_in or_equal_to up_to "
    "successor predecessor after including include includes contain contains slightly_under slightly_over just_under just_over "
    "is_at_least is_at_most is_less_than is_more_than is_fewer_than is_greater_than exceeds "
    "kleiner_als größer_als weniger_als mehr_als inférieure_à inférieur_à supérieure_à "
    "supérieur_à menor_que mayor_que maior_que minore_di maggiore_di меньше больше не_менее "
    "не_более tranne sauf кроме außer excepto salvo exceto somewhere_between "
    "verify check try test let_me_compute "
    "except excluding besides than anything_but all_but nothing_but everything_but other_than "
    "beyond below above under until near almost "
    "nearly halfway like such_as e.g. "
    "moins moitié carré racine_carrée racine puissance factorielle opposé triple fois quart "
    "tiers "
    "menos mitad doble cuadrado cubo raíz_cuadrada raíz raiz_quadrada raiz potencia inverso "
    "opuesto múltiplo tercio cuarto "
    "hälfte doppelte dreifache quadrat wurzel quadratwurzel fakultät kehrwert vielfaches "
    "vielfache drittel viertel "
    "meno metà doppio triplo quadrato radice_quadrata radice potenza fattoriale reciproco "
    "multiplo terzo "
    "metade dobro triplo quadrado potência fatorial terço "
    "helft dubbele kwadraat wortel vierkantswortel drievoud "
    "минус половина половину половины половине дважды удвоенное удвоенный квадрат корень "
    "квадратный куб степень "
    "факториал треть четверть удвоенному половине корню квадрату "
    "kwadrat pierwiastek połowa połowę podwojona sześcian silnia "
    "halva hälften dubbla dubbelt roten kvadratroten kvadraten halvparten halvdelen dobbelte "
    "kvadratet kvadratroden "
    "μείον μισό διπλάσιο τετράγωνο ρίζα نصف ضعف مربع جذر سالب منفی منفي नकारात्मक ऋण trừ âm "
    "bình_phương nửa căn "
    "gấp_đôi một_nửa kuadrat akar setengah dua_kali minus negatif eksi karekökü yarısı שורש "
    "ריבוע חצי כפול מינוס "
    "casi más_de menos_de hasta cerca_de_la "
    "presque moins_de plus_de jusqu'à "
    "fast beinahe über unter bis_zu knapp "
    "quasi meno_di più_di fino_a "
    "quase mais_de até "
    "bijna minder_dan meer_dan "
    "менее более почти не_менее не_более свыше "
    "prawie mniej_niż więcej_niż ponad poniżej "
    "neredeyse dưới trên gần "
    "kurang_dari lebih_dari hampir "
    "nästan mindre_än mer_än næsten nesten mindre_enn mer_enn "
    "melkein majdnem téměř méně_než více_než "
    "σχεδόν майже менше більше "
    "أقل_من أكثر_من כמעט "
    "pătratul jumătate jumătatea dublul rădăcina polovina dvojnásobek druhá_mocnina odmocnina",
    "不到 接近 将近 不足 低于 高于 至少是 至少为 至多是 至多为 最多是 最多为 小于 大于 少于 多于 超过 "
    "平方 立方 根号 一半 两倍 二倍 阶乘 負 负 减去 加上 除以 乘以 次方 倒数 マイナス 平方根 "
    "제곱근 마이너스 절반 ลบ รากที่สอง ครึ่ง",
)
CHANGES_BEFORE = Words(
    "karesi karesidir karekökü yarısı küpü négyzete fele kétszerese squared cubed factorial "
    "at_least at_most or_so and_then_some upside_down with_a_minus with_the_sign too_many too_few or_fewer or_above and_up short fewer "
    "digits_long written_backwards tens something repeated followed_by with_a_zero and_one_more in_the_example in_reverse times_the "
    "halves thirds quarters fourths fifths sixths sevenths eighths ninths tenths dozen dozens "
    "minus plus over choose mod modulo times_as to_the less_than more_than fewer_than "
    "greater_than root "
    "power percent_of doubled tripled halved hundredths divided multiplied increased decreased "
    "reduced raised twice thrice backwards reversed before_adding before_subtracting "
    "after_we_add after_adding after_subtracting or_more or_less max min maximum "
    "minimum give_or_take tens million millions billion billions trillion thousand thousands "
    "hundred hundreds crore "
    "lakh et_demi et_demie и_половиной с_половиной und_ein_halb y_medio e_mezzo e_meio "
    "au_carré au_cube factorielle douzaines al_cuadrado al_cubo docenas hoch zum_quadrat quadrat "
    "im_quadrat quadriert dutzend halbe alla_seconda al_quadrato alla_terza dozzine ao_quadrado "
    "ao_cubo dúzias "
    "kwadraat in_het_kwadraat в_квадрате в_кубе в_степени квадрат дюжин do_kwadratu kwadrat "
    "i_kvadrat opphøyd "
    "στο_τετράγωνο تربيع مربع مكعب का_वर्ग के_वर्ग का_वर्गमूल का_आधा का_दुगुना का_घन bình_phương "
    "kuadrat בריבוע la_pătrat na_druhou",
    "以上 以下 以内 未満 이상 이하 미만 초과 を超え より小 より大 보다_작 보다_크 以外 을_제외 를_제외 を除 个半 半 の2倍 の3倍 "
    "平方 的立方 的一半 一半 两倍 二倍 阶乘 次方 的倒数 的根 の半分 の二乗 の2乗 二乗 階乗 "
    "の平方根 제곱 의_절반 의_두_배 "
    "의_제곱 팩토리얼 กำลังสอง",
)
BOUNDS = (
    "al_menos como_mínimo por_lo_menos como_máximo a_lo_sumo au_moins au_plus au_maximum au_minimum "
    "mindestens höchstens wenigstens almeno al_massimo al_minimo pelo_menos ao_menos no_máximo no_mínimo "
    "minstens ten_minste hoogstens как_минимум co_najmniej co_najwyżej en_az en_fazla ít_nhất nhiều_nhất "
    "tối_đa tối_thiểu setidaknya paling_banyak paling_sedikit minst högst mindst højst høyst vähintään "
    "enintään legalább legfeljebb alespoň nejvýše cel_puțin cel_mult τουλάχιστον το_πολύ щонайменше "
    "على_الأقل على_الأكثر לפחות לכל_היותר कम_से_कम at_least at_most no_more_than no_less_than"
)
ARTICLES = words(
    "of the a an to by number de du des d la le les l el los las lo del al von vom der die das "
    "den dem aus zahl "
    "da do di il van het uit från av af z ze из от на числа числу με του της στο من العدد के का "
    "की của dari din lui "
    "là adalah to är er jest ligger "
    "than zero less more only just ב של"
)
BESIDE = " \t\n$\\({*'’-\""
LAST_WORD = re.compile(r"\w+$")
SHORT_WORD = re.compile(r"\w{1,3}\s+|[的の의]\s*")
AFTER_MARKS = " \t\n$)\\*'’\"-"
NAME_OF = re.compile(r"\b[a-z]\s*=\s*$")
AREA_UNIT = re.compile(r"^[\s$*]*(?:平方|立方)(?:[厘分毫千公]?[米尺里]|センチ|キロ|メートル|m)")
TEXT_OPENS = re.compile(r"[\s$]*\\(?:text|mathrm|mbox)\w*\s*\{\s*")
BETWEEN = re.compile(r"\bbetween$", re.I)
UP_TO_HERE = re.compile(r"\bbetween\s+\$?-?[\w.]{1,20}\$?\s+and$", re.I)
AND_NEXT = re.compile(r"[\s$)]*(?:and|&)\s")
PART_OF = re.compile(
    r"[\s$}]*(?:\\?%|percent|per cent)[\s$}]*\s+of\b|[\s$]*times\s+(?:\$?\d|[a-z]\b|two|three|four|ten)",
    re.I,
)


# The answer itself is bounded; "he needs at least 7" states the least number.
BOUNDED = re.compile(
    rf"(?:\b(?:is|are|ist|est|es|è|é|jest|to|är|er|on|là|adalah|равен|cevap|án|answer)|[:：]|是|は)\s*(?:{listed(BOUNDS)})$",
    re.I,
)
BOUNDS_END = frozenset(bound.split("_")[-1] for bound in BOUNDS.split())


def changed(before: str, after: str) -> bool:
    """Whether words beside a value make another of it: "half of 7", "7 squared"."""
    before = NAME_OF.sub("", before[-80:]).rstrip(BESIDE)
    while not CHANGES_NEXT.ends(before):
        word = LAST_WORD.search(before)
        if word is None or word[0].casefold() not in ARTICLES:
            break
        before = before[: word.start()].rstrip(BESIDE)
    else:
        return True
    ends = before.rsplit(None, 2)[-2:]
    if not BOUNDS_END.isdisjoint(word.casefold() for word in ends) and BOUNDED.search(
        before.removesuffix(" là")
    ):
        return True
    if before.endswith("and") and UP_TO_HERE.search(before):
        return True
    if BETWEEN.search(before) and AND_NEXT.match(after):
        return True
    after = AREA_UNIT.sub("", after[:60], count=1)
    if PART_OF.match(after):
        return True
    after = (TEXT_OPENS.sub("", after, count=1) if "\\" in after else after).lstrip(AFTER_MARKS)
    if CHANGES_BEFORE.begins(after):
        return True
    short = SHORT_WORD.match(after)
    return short is not None and CHANGES_BEFORE.begins(after[short.end() :])
