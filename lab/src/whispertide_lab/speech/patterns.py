"""Patterns of what people say that texts say too seldom: figures, dates, money, names, contractions, short turns.

Data only. A name in braces is a slot: in capitals a list of words here or in the grammar of the talks
(`speech.grammar`), in small letters a figure that `phrases` makes up. Written as Whisper writes.
"""

from types import MappingProxyType

from whispertide_lab.speech.grammar import RULES

_LISTS = {
    "FIRST": """James Mary John Anna Peter Linda David Susan Thomas Karen Robert Helen Michael Sarah William Emma Daniel
        Laura Paul Alice George Julia Mark Sophie Henry Grace Kevin Rachel Brian Olivia Jack Maria Eric Nancy Ben Kate
        Sam Lucy Tom Jane Adam Diana Simon Martha Alan Ruth Frank Clara Martin Rose Oliver Emily Andrew Jessica Max
        Hannah Charles Amy Luke Sandra Carlos Elena Ahmed Fatima Wei Yuki Ivan Olga Pierre Marie Hans Priya""",
    "LAST": """Smith Johnson Brown Taylor Miller Wilson Moore Anderson Thomas Jackson White Harris Martin Thompson Clark
        Lewis Walker Hall Young King Wright Hill Green Baker Adams Nelson Carter Mitchell Roberts Turner Phillips
        Campbell Parker Evans Edwards Collins Stewart Morris Rogers Reed Cook Morgan Bell Murphy Cooper Watson Brooks
        Kelly Price Bennett Wood Barnes Ross Henderson Coleman Jenkins Perry Powell Long Patterson Hughes Foster""",
    "CITY": """London Paris Berlin Boston Chicago Dallas Denver Houston Seattle Portland Atlanta Toronto Montreal Sydney
        Melbourne Tokyo Madrid Rome Vienna Dublin Oxford Cambridge Manchester Glasgow Amsterdam Brussels Moscow Cairo
        Delhi Washington Philadelphia Baltimore Detroit Miami Phoenix Lisbon Prague Warsaw Athens Geneva Munich""",
    "COUNTRY": """England France Germany Spain Italy Canada Australia Japan China India Mexico Brazil Egypt Russia
        Poland Sweden Norway Greece Turkey Ireland Scotland Portugal America Africa Europe Asia""",
    "TITLE": "Mr. Mrs. Ms. Dr. Dr. Professor President Captain",
    "SHORT": "US UK EU TV PC CD CEO CIA DNA GPS CPU USA NASA U.S. U.K.",
    "FULL_MONTH": """January February March April May June July August September October November December""",
    "SMALL": "two three four five six seven eight nine ten",
    "MANY": "people students workers visitors soldiers patients members",
    "LONG": "days weeks months years minutes hours",
    "UNITS": "miles meters pounds degrees inches feet gallons points pages",
    "FEEL": "tired hungry sorry glad sure ready late happy afraid busy fine cold",
    "THINK": "think believe know guess hope suppose feel",
    "HEDGE": "well so actually anyway now honestly okay",
}

_FROM_GRAMMAR = """PERSON PEOPLE THING THINGS PLACE ANIMAL IDEA STUFF FIELD ADJ MOOD MOVED MOVE GO DO ADV DAY SEASON
    MEET MET"""

LISTS = MappingProxyType(
    {name: tuple(words.split()) for name, words in _LISTS.items()}
    | {name: tuple(" ".join(choice) for choice in RULES[name]) for name in _FROM_GRAMMAR.split()}
)

FIGURES = """
It was built in {year}. | In {year}, the {PLACE} had {thousands} {MANY}.
{FIRST} was born on {FULL_MONTH} {day}, {year}. | {FIRST} {LAST} was born in {CITY} in {year}.
The {PLACE} was sold in {year} for {money}. | I was there in {year}.
Between {year} and {year}, the price rose by {percent}. | It happened in the {decade}. | The {decade} were {ADJ}.
Music from the {decade} is {ADJ} again. | We meet on {FULL_MONTH} {day}. | The party is on {DAY}, {FULL_MONTH} {day}.
They left on the {ordinal} of {FULL_MONTH}. | {FULL_MONTH} {ordinal} is a {DAY}. | It's the {ordinal} of {FULL_MONTH}.
The meeting is at {time}. | The train leaves at {time} and arrives at {time}. | I'll see you at {time}, {FIRST}.
Can you come at {time} {half}? | The {PLACE} opens at {time} {half} and closes at {time} {half}. | It's {oclock}.
We have to be there by {oclock}. | She called me at {oclock} in the morning. | He's been here since {time} {half}
{FIRST} has {count} books and {count} letters. | There were {count} {MANY} in the room.
About {thousands} {MANY} came. | More than {big} {MANY} live in {CITY}.
The {PLACE} has {thousands} {MANY} and {count} {THINGS}. | The price is {count} dollars. | It costs {money}.
I paid {money} for the {THING}. | They want {money} for it. | He earns {money} a month.
The {PLACE} cost ${count} million to build. | She sold it for £{count}.
The company made ${decimal} billion in {year}. | That's {money}, please. | It's only {count} cents.
About {percent} of the {MANY} came. | {percent} of the {PEOPLE} said no. | Prices fell by {rate} in {FULL_MONTH}.
It's {count} degrees outside. | The {PLACE} is {count} miles from {CITY}. | It's {decimal} miles to the {PLACE}.
The {THING} is {decimal} {UNITS} long. | She ran {count} {UNITS} in {decimal} hours. | Turn to page {count}.
He is {age} years old. | My {PERSON} is {age}. | She was {age} when she left {COUNTRY}. | He has a {age}-year-old son.
{FIRST} and {FIRST} left after {count} minutes. | Wait {count} seconds. | It took us {count} {LONG}.
This is the {ordinal} century. | It's on the {ordinal} floor, room {room}. | He lives in room {room}.
Our flight is number {room}. | She finished {ordinal}. | It was his {ordinal} birthday. | They won {score}.
My number is {phone}. | Call me at {phone}. | The code is {count}, {count}, {count}. | Read chapter {number}.
World War II ended in 1945. | There are {number} {THINGS} and {number} {THINGS}. | {number}, {number}, {number}.
One, two, three, four, five. | I counted {count} of them. | {number} and {number} is {number}.
Take Highway {number}.
"""

NAMES = """
My name is {FIRST} {LAST}. | {FIRST} {LAST} is a {PERSON} from {CITY}. | {TITLE} {LAST} is here.
Good morning, {TITLE} {LAST}. | This is {FIRST} speaking. | Hello, {FIRST}. | Thank you, {TITLE} {LAST}.
{TITLE} {LAST} will see you now. | {FIRST}, {FIRST}, and {FIRST} went to {CITY}. | Have you met {FIRST}?
{FIRST}'s {PERSON} lives in {CITY}. | {FIRST} moved from {CITY} to {CITY} in {year}.
{COUNTRY} and {COUNTRY} signed the agreement. | I'm from {COUNTRY}. | They flew from {CITY} to {CITY}.
{CITY} is in {COUNTRY}. | The {PERSON} from {COUNTRY} spoke about {FIELD}.
{TITLE} {LAST} told {FIRST} about the {IDEA}. | The {SHORT} is {ADJ}. | She works for the {SHORT}. | He watched TV.
It was on TV last {DAY}. | The U.S. and the U.K. agreed. | They moved to St. Louis. | {FIRST} {LAST} wrote the {IDEA}.
{FIRST} asked {FIRST} about {FIELD}. | Is {FIRST} coming? | Tell {FIRST} that I called. | Where's {FIRST}?
{FIRST} said that {TITLE} {LAST} was {MOOD}. | We'll visit {COUNTRY} next {SEASON}. | Go to {CITY}.
Books, letters, etc. are in the {PLACE}. | It's {CITY} vs. {CITY}.
"""

TALK = """
Yes. | No. | Okay. | Thank you. | Thanks a lot. | Thank you very much. | Hello. | Hi, everyone. | Good morning.
Good night. | Of course. | That's right. | I see. | Sorry. | Excuse me. | Please. | Not yet. | Never mind. | Go on.
Come in. | All right. | Yes, please. | No, thank you. | Oh, really? | Why not? | What's that? | Who's there?
See you later. | How are you? | I don't know. | I can't hear you. | It doesn't matter. | That's not true.
What do you mean? | I'm not sure. | I don't {THINK} so. | I don't know where the {THING} is.
I can't {MOVE} the {THING}. | I won't {MOVE} it. | I'm {FEEL}. | I'm not {FEEL}, I'm {FEEL}.
You're {FEEL}, aren't you? | She's {FEEL} and he's {FEEL}. | It's {ADJ}, isn't it? | It's not {ADJ}, but it's {ADJ}.
It isn't {ADJ} at all. | That's a {ADJ} {THING}. | We're going to the {PLACE}. | They're in the {PLACE}.
He's at the {PLACE}. | She'll {GO} to the {PLACE} tomorrow. | I've never seen a {ADJ} {ANIMAL}.
We've {MOVED} the {THING}. | They've {MOVED} everything. | I'd like a {THING}, please. | I'd rather {DO} than {DO}.
Don't {MOVE} the {THING}! | Don't worry, it's {ADJ}. | Let's {GO} to the {PLACE}. | Let's not {DO} now.
You shouldn't {MOVE} that {THING}. | He wouldn't {MEET} me. | She couldn't {MOVE} it. | They didn't {MEET} us.
Didn't you {MEET} the {PERSON}? | Why don't you {DO}? | Can't we {DO} on {DAY}? | Where's the {THING}?
What's the {IDEA}? | Who's that {PERSON}? | How's your {PERSON}? | What's wrong with the {THING}?
How much is the {THING}? | How many {THINGS} are there? | What time is it? | Where are you going? | When did he {GO}?
There's a {THING} in the {PLACE}. | There isn't any {STUFF} in the {THING}. | There weren't any {THINGS}.
There was a {ADJ} {ANIMAL} in the {PLACE}. | It was a {ADJ} {SEASON}. | There were {SMALL} {PEOPLE}.
I {THINK} you're {FEEL}. | I {THINK} that's {ADJ}. | I thought it was {ADJ}. | I hope you're {FEEL}.
Do you {THINK} so? | {HEDGE}, I {THINK} it's {ADJ}. | {HEDGE}, let's {GO}. | {HEDGE}, that's what I said.
{HEDGE}, we can {DO} here. | You know, I've {MOVED} the {THING}. | I mean, it's {ADJ}. | Look, I don't want to {DO}.
Listen, {FIRST}. | Please {MOVE} the {THING} {ADV}. | Please don't {DO} here. | Could you {MOVE} the {THING}, please?
May I {DO}? | Would you like to {DO}? | Do you want the {ADJ} {THING} or the {ADJ} one? | Which {THING} is yours?
Is this your {THING}? | The {PERSON}'s {THING} is {ADJ}. | My {PERSON}'s {THING} isn't here.
That's the {PERSON}'s {IDEA}, not mine. | I was going to say that the {THING} isn't {ADJ}.
If it's {ADJ}, I'll {MOVE} it. | If you don't {DO}, we'll {GO}. | We haven't {MOVED} it, and we aren't going to.
He hasn't {MET} her yet. | You've got to {GO}. | I've got {SMALL} {THINGS}. | What a {ADJ} {THING}! | How {ADJ}!
Be careful! | Stop! | Wait! | Help! | Look at that {ANIMAL}! | Here we are. | Today we're talking about {FIELD}.
Let me tell you about {FIELD}. | The next question is about {FIELD}.
So the {IDEA} is {ADJ}, and that's why we {MOVED} the {THING}. | That's all for today. | Let's begin.
Next slide, please.
"""
