"""The words and sentence patterns that the synthetic talks are made of: everyday English, written for this purpose.

Data only. A pattern is a string of words and of names in capitals, which stand for one of the alternatives under that
name. There are no contractions, no numbers in digits and no numbers of several words, so that one written word is one
spoken word and text normalisers leave the count alone.
"""

from types import MappingProxyType

_WORDS = {
    "PERSON": """man woman boy girl child doctor teacher student farmer king queen soldier father mother brother sister
        friend husband wife son daughter leader officer painter player president secretary singer writer driver captain
        judge worker baker sailor lawyer nurse guest stranger poet artist neighbor manager cook hunter reporter
        scientist engineer dancer visitor owner""",
    "PEOPLE": """men women children people students farmers soldiers friends workers players members parents teachers
        neighbors sailors visitors guests doctors writers""",
    "THING": """letter table box key picture bottle bag knife cup plate chair door window machine engine bell clock coat
        shirt hat shoe ring rope stone stick coin map ticket pen paper lamp wheel boat car book instrument telephone
        camera mirror basket blanket candle hammer needle carpet flag gun ball pipe tube sign seed flower leaf branch
        fruit sugar bread cheese milk coffee""",
    "PLACE": """house garden room kitchen street town city village forest field river lake mountain island school church
        market station office store bank hospital farm bridge road square hall theater library harbor beach valley
        museum factory hotel tower castle desert park""",
    "ANIMAL": """dog cat horse cow bird sheep mouse fox wolf bear duck chicken lion snake rabbit goat pig monkey tiger
        elephant""",
    "IDEA": """idea plan question answer story song game law rule problem reason result change chance price name word
        language speech voice decision lesson message method mistake promise secret theory experiment discovery
        dream argument agreement battle journey meeting party""",
    "STUFF": """water wood gold iron glass steel paper stone sand salt oil cotton leather silver clay wool grass ice""",
    "FIELD": """history music science nature business law medicine art war peace education weather religion
        language travel sport farming cooking""",
    "ADJ": """good bad big small large little old young new long short high low dark bright clean dry wet cold warm hot
        hard soft heavy light strong weak rich poor quiet loud slow fast sharp smooth round flat deep wide narrow thick
        thin white black red green blue yellow brown grey beautiful famous simple strange important difficult easy
        pleasant broken empty common ancient modern natural useful""",
    "MOOD": """happy sad proud tired angry busy careful honest sure ready afraid alone surprised hungry sick silent
        gentle brave free safe famous poor rich old young strong weak late""",
    "MOVED": """carried found lost bought sold opened closed cleaned broke fixed moved built painted washed dropped
        pulled pushed hid stole kept held left took brought saw needed wanted liked watched noticed described examined
        covered touched lifted measured collected ordered finished""",
    "MOVE": """carry find lose buy sell open close clean break fix move build paint wash drop pull push hide keep hold
        leave take bring see need want watch describe examine cover touch lift measure collect order finish""",
    "WENT": """walked went ran came returned traveled moved drove hurried looked jumped climbed marched""",
    "DID": """waited slept laughed cried smiled worked rested sang danced listened talked stopped sat stood stayed
        played""",
    "TOLD": """told asked taught showed gave offered promised sent""",
    "KNEW": """knew thought believed said hoped felt heard learned understood remembered explained answered decided
        discovered agreed""",
    "MET": """met saw helped followed called loved knew thanked visited invited trusted warned watched heard
        found""",
    "ADV": """slowly quickly carefully quietly suddenly easily together again early late once twice alone often
        always usually finally""",
    "TO": "to into toward through across near behind from past around",
    "AT": "in near behind outside inside beside above below under",
    "COUNT": "two three four five six seven eight nine ten several many some few",
    "UNIT": "days years months weeks hours minutes",
    "THINGS": """letters books boxes keys pictures bottles bags cups plates chairs windows machines coats shoes stones
        coins maps tickets trees flowers houses cars boats horses dogs birds fish apples stars songs stories questions
        problems rules plans words""",
    "MONTH": "January February April June July August September October November December",
    "DAY": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "SEASON": "spring summer autumn winter",
    "PART": "morning afternoon evening",
}

_PATTERNS = {
    "S": """NP WENT TO NP_PLACE ; NP WENT TO NP_PLACE WHEN ; WHEN NP WENT ADV TO NP_PLACE ; NP MOVED NP_THING
        AT NP_PLACE ; WHEN NP MOVED NP_THING ; NP MOVED NP_THING and then WENT TO NP_PLACE ; NP MET NP AT NP_PLACE ;
        NP MET NP and NP MOVED NP_THING ; NP TOLD NP about the IDEA ; NP TOLD me a ADJ IDEA about the PERSON ;
        the PEOPLE KNEW that NP WAS MOOD ; NP KNEW that NP_THING WAS ADJ ; SHE KNEW that the PEOPLE WENT TO NP_PLACE ;
        NP DID AT NP_PLACE WHEN ; NP DID for COUNT UNIT ; NP DID ADV and NP DID too ; NP_THING WAS ADJ and ADJ ;
        NP_THING WAS made of STUFF ; NP_PLACE WAS full of PEOPLE ; NP_PLACE WAS ADJ but NP_PLACE WAS not ;
        there WAS a ADJ THING AT NP_PLACE ; there were COUNT THINGS AT NP_PLACE ; COUNT THINGS were AT NP_PLACE ;
        NP had COUNT THINGS and a ADJ THING ; it WAS a ADJ DAYTIME and NP WAS MOOD ; WHEN the weather WAS ADJ ;
        NP wanted to MOVE NP_THING ; NP tried to MOVE NP_THING but it WAS too ADJ ; you must MOVE the THING before you
        MOVE the THING ; we can MOVE the THING with a ADJ THING ; they will MOVE NP_THING before SEASON ;
        the IDEA of NP WAS very ADJ ; the IDEA about FIELD WAS more important than the IDEA ; NP studied FIELD for COUNT
        UNIT ; SHE never MOVED NP_THING because it WAS ADJ ; when NP WENT TO NP_PLACE , NP DID ;
        if the THING is ADJ , you should MOVE it ; although NP WAS MOOD , SHE MOVED NP_THING ;
        because the PLACE WAS ADJ , the PEOPLE WENT TO NP_PLACE ; NP , who WAS MOOD , DID AT NP_PLACE ;
        the ANIMAL WENT TO NP_PLACE and DID ; NP MET a ADJ ANIMAL AT NP_PLACE ; the color of NP_THING WAS ADJ ;
        NP asked whether NP_THING WAS ADJ ; nobody KNEW why NP MOVED NP_THING ; everyone AT NP_PLACE MET NP ;
        NP lived AT NP_PLACE for COUNT UNIT ; most PEOPLE like FIELD and some PEOPLE like FIELD ;
        the price of NP_THING WAS high , but NP MOVED it ; first SHE MOVED NP_THING , and later SHE MOVED NP_THING ;
        NP is as MOOD as NP ; NP_PLACE is COUNT miles from here ; what NP KNEW about FIELD WAS ADJ ;
        do you know who MOVED NP_THING ? ; where is NP_THING that NP MOVED ? ; why WAS NP so MOOD WHEN ? ;
        have you ever MET NP AT NP_PLACE ? ; did NP MOVE NP_THING ?""",
    "NP": """the PERSON ; the PERSON ; a PERSON ; the ADJ PERSON ; a MOOD PERSON ; my PERSON ; her PERSON ; his PERSON ;
        SHE ; SHE ; the PERSON with the THING ; the PERSON from the PLACE ; our PERSON ; one of the PEOPLE ;
        every PERSON ; another PERSON""",
    "SHE": "she ; he",
    "NP_THING": """the THING ; a THING ; the ADJ THING ; a ADJ THING ; his THING ; her THING ; the THING of the PERSON ;
        this THING ; that ADJ THING ; their THING ; the other THING""",
    "NP_PLACE": """the PLACE ; the PLACE ; the ADJ PLACE ; a ADJ PLACE ; the PLACE of the PLACE ; our PLACE ; the next
        PLACE ; the PLACE with the ADJ THING""",
    "WAS": "was ; was ; was ; was always ; was never ; was still",
    "WHEN": """in the PART ; last DAYTIME ; on DAY ; in MONTH ; after COUNT UNIT ; before the IDEA ; during the SEASON ;
        at the end of the DAYTIME ; every DAYTIME ; one DAYTIME ; a long time ago ; at the beginning of MONTH ;
        after the IDEA""",
    "DAYTIME": "day ; night ; morning ; evening ; SEASON ; week ; year",
}


def _alternatives(text: str, separator: str | None) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(part.split()) for part in text.split(separator))


# Name -> its alternatives; each alternative is a sequence of words, names and punctuation marks.
RULES = MappingProxyType(
    {name: _alternatives(text, None) for name, text in _WORDS.items()}
    | {name: _alternatives(text, ";") for name, text in _PATTERNS.items()}
)

# Where "a" stands before a vowel sound, by the letters that the next word begins with; and the words where that fails.
VOWELS = "aeiou"
NOT_VOWELS = ("use", "usu", "uni", "one", "once")
