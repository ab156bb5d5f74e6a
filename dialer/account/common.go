package account

import (
	"slices"
	"strings"
)

// commonPasswords are those of eight characters and more that lead every list of leaked passwords, in lower case, and ours. With a hundred
// guesses a day for an account, the first few hundred of such a list are all that can be tried.
const commonPasswords = `00000000 11111111 12121212 12341234 12344321 123123123 12345678 123456789 1234567890 12345678a 123456abc 1234abcd
1234qwer 123qweasd 147258369 1q2w3e4r 1q2w3e4r5t 1qaz2wsx 22222222 31415926 55555555 66666666 77777777 87654321 88888888 987654321 99999999
a1234567 a12345678 aa123456 aaaaaaaa abc12345 abcd1234 abcdefgh access14 admin123 admin1234 administrator asdf1234 asdfasdf asdfghjkl
babygirl baseball basketball blink182 butterfly changeme changeit charlie1 chocolate computer cricket1 default1 dragon12 elephant facebook
football football1 freedom1 hello123 iloveyou iloveyou1 india123 internet jennifer jonathan kolkata1 letmein1 letmein123 liverpool
loveyou1 mahadev1 master12 maverick michael1 michelle midnight minecraft monkey12 mustang1 p@ssw0rd pa55word pass1234 passw0rd password
password! password1 password12 password123 password1234 passwords pokemon1 princess princess1 q1w2e3r4 q1w2e3r4t5 qazwsxedc qqqqqqqq
qwer1234 qwerty12 qwerty123 qwerty1234 qwertyui qwertyuiop ringmaster ringmaster1 samantha samsung1 secret123 shadow12 spiderman starwars
sunshine sunshine1 superman superman1 supervisor telephone test1234 testtest thomas12 trustno1 victoria welcome1 welcome123 welcome@123
whatever william1 zaq12wsx zxcvbnm1 zxcvbnm123`

func isCommon(password string) bool {
	return slices.Contains(strings.Fields(commonPasswords), strings.ToLower(password))
}
