import mpmath as mp
mp.mp.prec=200
smax=(mp.sqrt(2)-1)/(mp.sqrt(2)+1)
zmax=smax**2*mp.mpf('1.0001')
# R(z)/z with 2 atanh(s)/s = 2 + R(z)
def F(z):
    if z==0: return mp.mpf(2)/3
    s=mp.sqrt(z); return (2*mp.atanh(s)/s-2)/z
for deg in (5,6,7):
    # Remez-free: Chebyshev interpolation, then one step of coefficients rounding
    poly,err=mp.chebyfit(F,[0,zmax],deg+1,error=True)
    print(deg,mp.nstr(err*zmax/2,5), mp.log(err*zmax/2,2))
    if deg==6:
        for c in poly[::-1]: print(float(c).hex(), float(c))
ln2=mp.log(2)
hi=mp.floor(ln2*2**32)/2**32 
hi=mp.mpf(int(ln2*2**42))/2**42
print(float(hi).hex(), float(ln2-hi).hex())
