"""The words and sentence patterns that the synthetic talks are made of: everyday English, written for this purpose.

Most of the words are among the 1,200 most frequent ones of WordNet's glosses and examples, which are all the words that
the bundled nano.en has ever heard; about one in ten is not. Data only. A pattern is a string of words and of names in
capitals, which stand for one of the alternatives under that name. There are no contractions, no numbers in digits and
no numbers of several words, so that one written word is one spoken word and text normalisers leave the count alone.
"""

from types import MappingProxyType

_WORDS = {
    "PERSON": """man woman boy girl child teacher student king father mother friend husband wife son leader officer
        painter player president writer poet composer doctor soldier brother sister queen farmer judge worker""",
    "PEOPLE": """men women children people students friends members parents workers soldiers others teachers""",
    "THING": """letter table plate door window machine engine coat rope stone paper boat car book instrument telephone
        gun ball tube seed flower leaf branch fruit bread tool wheel box key picture bottle knife cup bell shirt hat
        lamp computer signal map""",
    "PLACE": """house room street town city field river lake mountain island school church market office store bank road
        square garden village forest bridge hall station center park ocean coast country""",
    "ANIMAL": """dog horse bird fish animal cat cow mouse""",
    "IDEA": """idea plan question story game law problem reason result change price name word language speech voice
        secret theory argument agreement battle meeting party test signal record event decision answer lesson""",
    "STUFF": """water wood gold iron glass steel paper stone salt oil grass ice leather""",
    "FIELD": """history music science nature business law medicine art war language travel religion weather""",
    "ADJ": """good bad big small large little old young new long short high low dark bright clean dry cold warm hot hard
        soft heavy light strong rich poor loud slow fast sharp smooth round flat deep wide narrow thick thin white
        black red green blue yellow brown grey beautiful famous simple important difficult easy broken common ancient
        modern natural sweet fresh empty quiet strange""",
    "MOOD": """free famous poor rich old young strong late good right wrong ready sure happy tired angry busy careful
        brave""",
    "MOVED": """carried found lost closed fixed built kept held left took brought saw covered used made got cut put read
        turned raised removed opened sold bought""",
    "MOVE": """carry find lose buy open close clean break move keep hold leave take bring see need want cover measure
        order use make get cut read turn raise remove test study show""",
    "WENT": """went came looked turned walked ran moved""",
    "GO": """go come look turn walk run move travel""",
    "DID": """worked played talked rested stopped slept""",
    "DO": """work play talk rest stop sleep fight read write think""",
    "TOLD": """gave told showed""",
    "KNEW": """thought said felt knew believed""",
    "KNOW": """think say feel know""",
    "MET": """saw followed called found met helped loved""",
    "MEET": """see meet help love call tell understand follow""",
    "ADV": """quickly suddenly easily together again early late once often always usually slowly""",
    "TO": "to into toward through across near behind from past around",
    "AT": "in near behind outside inside above below under",
    "COUNT": "two three four five ten several many some few six",
    "UNIT": "days years hours",
    "THINGS": """letters books trees flowers horses birds fish problems rules words plants leaves seeds cells
        hands houses boats tools stories pieces""",
    "MONTH": "May June July August September",
    "DAY": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
    "SEASON": "spring summer autumn winter",
    "CAN": "can will must could would should",
}

_PATTERNS = {
    "S": """NP WENT TO NP_PLACE ; NP CAN GO TO NP_PLACE ; NP CAN GO TO NP_PLACE WHEN ; WHEN NP WENT TO NP_PLACE ;
        NP MOVED NP_THING AT NP_PLACE ; NP CAN MOVE NP_THING AT NP_PLACE ; WHEN NP MOVED NP_THING ;
        WHEN NP CAN MOVE NP_THING ; NP MOVED NP_THING and then WENT TO NP_PLACE ; NP MET NP AT NP_PLACE ;
        NP CAN MEET NP AT NP_PLACE ; NP MET NP and NP MOVED NP_THING ; NP gave NP a ADJ THING ;
        NP TOLD me a ADJ THING ; NP gave us a ADJ IDEA about FIELD ; the PEOPLE KNEW that NP WAS MOOD ;
        PEOPLE KNOW that NP is MOOD ; NP KNEW that NP_THING WAS ADJ ; NP KNEW that the PEOPLE WENT TO NP_PLACE ;
        NP DID AT NP_PLACE WHEN ; NP CAN DO AT NP_PLACE for COUNT UNIT ; NP CAN DO ADV and NP CAN DO too ;
        the PEOPLE CAN DO AT NP_PLACE ; NP_THING WAS ADJ and ADJ ; NP_THING is made of STUFF ;
        NP_THING WAS made of STUFF and STUFF ; NP_PLACE is full of PEOPLE ; NP_PLACE WAS ADJ but NP_PLACE WAS not ;
        this is a ADJ THING AT NP_PLACE ; COUNT THINGS were AT NP_PLACE ; the THINGS of NP were ADJ ;
        NP had COUNT THINGS and a ADJ THING ; NP has COUNT THINGS ; it WAS a ADJ DAYTIME and NP WAS MOOD ;
        WHEN the weather WAS ADJ ; NP will need to MOVE NP_THING ; NP tried to MOVE NP_THING but it WAS too ADJ ;
        you must MOVE the THING before you MOVE the THING ; we can MOVE the THING with a ADJ THING ;
        they will MOVE NP_THING before SEASON ; the IDEA of NP WAS very ADJ ; the ANIMAL WENT TO NP_PLACE ;
        the IDEA about FIELD WAS more important than the IDEA ; the study of FIELD is ADJ and ADJ ;
        PEOPLE study FIELD for COUNT UNIT ; NP never MOVED NP_THING because it WAS ADJ ;
        when NP WENT TO NP_PLACE , NP MOVED NP_THING ; if the THING is ADJ , you should MOVE it ;
        although NP WAS MOOD , NP MOVED NP_THING ; because the PLACE WAS ADJ , the PEOPLE WENT TO NP_PLACE ;
        NP , who WAS MOOD , DID AT NP_PLACE ; NP saw a ADJ ANIMAL AT NP_PLACE ; the color of NP_THING is ADJ ;
        a ADJ ANIMAL CAN GO TO NP_PLACE ; the color of the ANIMAL WAS ADJ and ADJ ; NP CAN see COUNT THINGS ;
        everything AT NP_PLACE WAS ADJ ; something AT NP_PLACE is ADJ ; NP lived AT NP_PLACE for COUNT UNIT ;
        most PEOPLE love FIELD and some PEOPLE love FIELD ; the price of NP_THING WAS high , but NP bought it ;
        first NP MOVED NP_THING , and then NP MOVED NP_THING ; NP is as MOOD as NP ; NP is more MOOD than NP ;
        the end of the IDEA WAS ADJ ; one part of the THING is made of STUFF ; the power of FIELD is ADJ ;
        do you know who MOVED NP_THING ? ; where is NP_THING that NP MOVED ? ; why WAS NP MOOD WHEN ? ;
        CAN NP MOVE NP_THING ? ; did NP MOVE NP_THING ? ; what did NP MOVE AT NP_PLACE ?""",
    "NP": """the PERSON ; the PERSON ; a PERSON ; the ADJ PERSON ; my PERSON ; her PERSON ; his PERSON ; SHE ; SHE ;
        the PERSON with the THING ; the PERSON from the PLACE ; our PERSON ; one of the PEOPLE ; every PERSON ;
        another PERSON""",
    "SHE": "she ; he",
    "NP_THING": """the THING ; a THING ; the ADJ THING ; a ADJ THING ; his THING ; her THING ; the THING of the PERSON ;
        this THING ; that ADJ THING ; their THING ; the other THING""",
    "NP_PLACE": """the PLACE ; the PLACE ; the ADJ PLACE ; a ADJ PLACE ; the PLACE of the PLACE ; our PLACE ; the next
        PLACE ; the PLACE with the ADJ THING""",
    "WAS": "was ; was ; was ; was always ; was never ; was still",
    "WHEN": """in the morning ; last DAYTIME ; on DAY ; in MONTH ; after COUNT UNIT ; before the IDEA ;
        during the SEASON ; at the end of the DAYTIME ; every DAYTIME ; one DAYTIME ; a long time ago ; after the IDEA ;
        at the beginning of MONTH""",
    "DAYTIME": "day ; night ; morning ; day ; SEASON ; week ; year",
}


def _alternatives(text: str, separator: str | None) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(part.split()) for part in text.split(separator))


# Name -> its alternatives; each alternative is a sequence of words, names and punctuation marks.
RULES = MappingProxyType(
    {name: _alternatives(text, None) for name, text in _WORDS.items()}
    | {name: _alternatives(text, ";") for name, text in _PATTERNS.items()}
)

# "a" becomes "an" before a word that begins with one of these; no word above begins like "useful" or "hour".
VOWELS = "aeiou"
